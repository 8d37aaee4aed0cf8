// SPDX-License-Identifier: Apache-2.0
#include "collectives/host/host_engine.h"

#include <cassert>

#include "collectives/planner/host_strategies.h"
#include "collectives/planner/planner.h"
#include "collectives/profiler/call_events.h"
#include "kernels/host/announcer.h"
#include "kernels/host/host_executor.h"
#include "kernels/host/simd/reduce_kernels.h"

namespace rondo {
namespace {

// A call of a communicator with one rank: a copy, scaled for PreMulSum.
void run_alone(host::Sharing& sharing, const Call& call) {
  const CallRecord& record = call.record;
  const std::size_t bytes = record.count * size_of(record.type);
  if (bytes == 0 || call.receive == nullptr || call.send == nullptr) return;
  if (reduces(record.collective) && record.op == RedOp::kPreMulSum) {
    host::scale(call.receive, call.send, record.count, record.type, call.scalar.data());
  } else {
    sharing.copy(call.receive, call.send, bytes);
  }
}

host::Carrier carrier_of(Protocol protocol) {
  assert(protocol != Protocol::kSimple && protocol != Protocol::kMixed);
  switch (protocol) {
    case Protocol::kLine:
      return host::Carrier::kLine;
    case Protocol::kLines:
      return host::Carrier::kLines;
    default:
      return host::Carrier::kStaging;
  }
}

// True if input and output are one buffer, or one is part of the other by NCCL's in-place rule.
bool in_place(const Call& call, int rank) {
  if (call.send == call.receive) return true;
  const std::size_t offset =
      call.record.count * size_of(call.record.type) * static_cast<std::size_t>(rank);
  const auto* send = static_cast<const std::byte*>(call.send);
  const auto* receive = static_cast<const std::byte*>(call.receive);
  return send == receive + offset || receive == send + offset;
}

}  // namespace

void HostEngine::set_budget(const Waiter::Budget& alone) {
  alone_budget_ = alone;
  host_.waiter.set_budget(alone);
}

// On a stream's thread the program may use the core for its own computation: sleep soon.
void HostEngine::choose_budget(bool beside) {
  constexpr Waiter::Budget kBesideTheProgram{200, 0};
  if (beside == beside_the_program_) return;
  beside_the_program_ = beside;
  host_.waiter.set_budget(beside ? kBesideTheProgram : alone_budget_);
}

Status HostEngine::run_group(std::span<const Call> calls) {
  bool messages = false;
  bool one_sided = false;
  profiler::CallEvents* const events = context_.host_events();
  for (std::size_t i = 0; i < calls.size();) {
    if (is_point_to_point(calls[i])) {
      messages = true;
      ++i;
    } else if (is_one_sided(calls[i])) {
      one_sided = true;
      ++i;
    } else if (const std::size_t fused = fused_.collect(calls.subspan(i)); fused > 1) {
      messages |= fused_.collected() < fused;  // possibly between the fused calls
      one_sided |= fused_.collected() < fused;
      if (events != nullptr) events->next(calls.subspan(i, fused));
      RONDO_CHECK_OK(fused_.run([&](const Call& call) {
        if (events != nullptr) events->next({&call, 1});
        return run_collective(call);
      }));
      i += fused;
    } else {
      if (events != nullptr) events->next(calls.subspan(i, 1));
      RONDO_CHECK_OK(run_collective(calls[i]));
      ++i;
    }
  }
  if (messages) RONDO_CHECK_OK(messages_.run(calls));
  return one_sided ? one_sided_.run(calls) : ok_status();
}

// A call without data moves nothing and waits for no rank. It is announced because peers may have
// made it with data.
Status HostEngine::announce_empty(const CallRecord& record) {
  assert(members_.size > 1 && "a rank that is alone announces nothing");
  call_.record = record;
  host::Announcer announcer(host_, record);
  announcer.reserve_line();
  announcer.publish_line(0);
  Status result = announcer.failed() ? faults_.why_it_ended() : ok_status();
  if (result.ok()) host_.finish_call();
  call_.record = CallRecord{};
  return result;
}

Status HostEngine::run_collective(const Call& call) {
  assert(!is_point_to_point(call) && !is_one_sided(call));
  assert(call.record.root < members_.size);
  if (call.parts) return run_parts(call);
  if (!context_.on_device) context_.count_calls(call.record.collective);
  if (call.record.count == 0 && call.record.collective != Collective::kBarrier)
    return members_.size == 1 ? ok_status() : announce_empty(call.record);
  if (is_ordered(call.record.collective)) return ordered().run(call);
  const Planned* planned = plans_.find(call.record);
  if (planned == nullptr) {
    const Result<Plan> made = make_plan(facts_, call.record);
    if (!made.ok()) {
      // Planning fails on every rank that makes this call. Announced so that a rank that makes
      // another call does not wait in vain.
      (void)announce_empty(call.record);
      return made.error();
    }
    if (members_.rank == 0) choices_.report(facts_, call.record, *made);
    moving_ns_ = host_work(facts_, call.record, *made).moving_ns(facts_.costs);
    if (verified_.is_on()) return run_verified(call, *made);
    planned = &plans_.put(call.record, {*made, moving_ns_});
  }
  moving_ns_ = planned->moving_ns;
  return run_planned(call, planned->plan);
}

Status HostEngine::run_verified(const Call& call, const Plan& plan) {
  assert(verified_.is_on());
  const auto run = [&] { return run_planned(call, plan); };
  if (call.record.collective == Collective::kBarrier || !verified_.is_next_due()) return run();
  VerifiedCall whole;
  whole.record = call.record;
  whole.count = call.record.count;
  whole.input = static_cast<const std::byte*>(call.send);
  whole.output = static_cast<std::byte*>(call.receive);
  whole.scalar = call.scalar.data();
  if (!has_tree_bits(facts_, plan, call.record.type)) whole.exactness = Exactness::kWithinRounding;
  return verified_.run(whole, run);
}

// An all-gather of VerifiedCalls. NCCL_ALGO and NCCL_PROTO choose for the program's calls only.
Status HostEngine::exchange(const Call& call) {
  PlanFacts unfiltered = facts_;
  unfiltered.algorithms = {};
  unfiltered.protocols = {};
  RONDO_TRY(const Plan plan, make_plan(unfiltered, call.record));
  const LastPlan of_program = last_plan_;
  Status result = run_planned(call, plan);
  last_plan_ = of_program;
  return result;
}

OrderedCalls& HostEngine::ordered() {
  if (ordered_ == nullptr) {
    OrderedCalls::Steps steps;
    steps.run = [this](const Call& step, const Planned& planned, const CallRecord& whole) {
      moving_ns_ = planned.moving_ns;
      return run_planned(step, planned.plan, &whole);
    };
    steps.run_messages = [this](std::span<const Call> messages, const CallRecord& whole) {
      return messages_.run_announced(messages, whole);
    };
    ordered_ = std::make_unique<OrderedCalls>(context_, std::move(steps));
  }
  return *ordered_;
}

Status HostEngine::run_planned(const Call& call, const Plan& plan, const CallRecord* whole) {
  host_.sharing.begin_call(moving_ns_, beside_the_program_);
  if (members_.size == 1) return run_alone(host_.sharing, call), ok_status();
  assert(plan.row != nullptr || whole == nullptr);
  if (plan.strategy == Strategy::kOwners) return ordered().run_plain(call);
  if (plan.row == nullptr) return messages_.run_collective(call);
  last_plan_ = {plan.algorithm, plan.protocol, plan.rounds.size()};
  host_.recorder.choose(plan.algorithm, plan.protocol);
  host_.staged_bytes = host_.read_bytes = 0;
  call_.record = whole != nullptr ? *whole : call.record;
  host::HostCall host_call;
  host_call.record = call.record;
  host_call.whole = whole;
  host_call.input = call.send;
  host_call.output = call.receive;
  host_call.type = call.record.type;
  host_call.op = call.record.op;
  host_call.root = call.record.root;
  host_call.scalar = call.scalar.data();
  std::int32_t token = 1, tokens = 0;  // a barrier between hosts is a sum of tokens
  if (call.record.collective == Collective::kBarrier && facts_.hosts > 1) {
    host_call.input = &token;
    host_call.output = &tokens;
    host_call.type = DataType::kInt32;
    host_call.op = RedOp::kSum;
  }
  const AlgorithmRow& row = *plan.row;
  host_call.may_expose_input = plan.expose &&
                               is_among(row.inputs, members_.rank, call.record.root) &&
                               (row.in_place_safe || !in_place(call, members_.rank));
  host_call.may_expose_output =
      plan.expose && is_among(row.outputs, members_.rank, call.record.root);
  host_call.may_expose_to_reads = plan.protocol == Protocol::kRead && host_call.may_expose_input;
  host_call.slot_parts = plan.slot_parts;
  host_call.stream_stores = plan.stream_stores;
  Status result;
  switch (row.verbs) {
    case Verbs::kPrimitives:
      result = connected_.run_connected(host_call, plan);
      break;
    case Verbs::kViews:
      result = connected_.run_hierarchical(host_call, plan);
      break;
    case Verbs::kPeerMemory:
      if (!host::run_direct(host_, host_call, plan.algorithm, carrier_of(plan.protocol),
                            plan.rounds))
        result = faults_.why_it_ended();
      break;
  }
  last_plan_.staged_bytes = host_.staged_bytes;
  last_plan_.read_bytes = host_.read_bytes;
  if (result.ok()) host_.finish_call();
  call_.record = CallRecord{};
  return result;
}

// A v-collective runs as messages, or as reductions one after another; these are announced as
// separate calls after the whole.
Status HostEngine::run_parts(const Call& whole) {
  assert(whole.parts != nullptr && is_vector(whole.record.collective));
  if (whole.record.collective != Collective::kReduceScatterV) {
    const auto run = [&] { return messages_.run_announced(*whole.parts, whole.record); };
    if (!verified_.is_on() || !verified_.is_next_due()) return run();
    VerifiedCall messages;
    messages.record = whole.record;
    messages.messages = whole.parts.get();
    return verified_.run(messages, run);
  }
  if (members_.size > 1) RONDO_CHECK_OK(announce_empty(whole.record));
  for (const Call& part : *whole.parts) {
    Call reduction = part;
    reduction.scalar = whole.scalar;  // PreMulSum's scalar may have been read late
    RONDO_CHECK_OK(run_collective(reduction));
  }
  return ok_status();
}

}  // namespace rondo
