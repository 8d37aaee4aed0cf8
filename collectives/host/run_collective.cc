// One collective of a communicator: alone, directly within a host, or along connections.
#include <cstring>

#include "collectives/communicator/communicator_state.h"
#include "kernels/host/announcer.h"
#include "kernels/host/reduce_kernels.h"
#include "kernels/host/run_direct.h"

namespace rondo {
namespace {

// A call of a communicator of one rank: a copy, scaled for PreMulSum.
void run_alone(const Call& call) {
  const CallRecord& record = call.record;
  const std::size_t bytes = record.count * size_of(record.type);
  if (bytes == 0 || call.receive == nullptr || call.send == nullptr) return;
  if (reduces(record.collective) && record.op == RedOp::kPreMulSum) {
    host::scale(call.receive, call.send, record.count, record.type, call.scalar.data());
  } else if (call.receive != call.send) {
    std::memcpy(call.receive, call.send, bytes);
  }
}

host::Carrier carrier_of(Protocol protocol) {
  switch (protocol) {
    case Protocol::kLine:
      return host::Carrier::kLine;
    case Protocol::kLines:
      return host::Carrier::kLines;
    default:
      return host::Carrier::kStaging;
  }
}

// Whether input and output are one buffer (or one is a part of the other, in NCCL's in-place rule).
bool in_place(const Call& call, int rank) {
  if (call.send == call.receive) return true;
  const std::size_t offset =
      call.record.count * size_of(call.record.type) * static_cast<std::size_t>(rank);
  const auto* send = static_cast<const std::byte*>(call.send);
  const auto* receive = static_cast<const std::byte*>(call.receive);
  return send == receive + offset || receive == send + offset;
}

}  // namespace

// A call without data moves nothing and waits for nobody, but peers may have made it with some.
Done CommunicatorState::announce_empty(const CallRecord& record) {
  current = record;
  host::Announcer announcer(host, record);
  announcer.reserve_line();
  announcer.publish_line(0);
  Done result = announcer.failed() ? why_it_ended() : done();
  if (result.ok()) host.finish_call();
  current = CallRecord{};
  return result;
}

Done CommunicatorState::run_collective(const Call& call) {
  if (call.parts) return run_parts(call);
  if (size == 1) {
    run_alone(call);
    return done();
  }
  if (call.record.count == 0 && call.record.collective != Collective::kBarrier)
    return announce_empty(call.record);
  if (facts.hosts > 1) {
    const Collective which = call.record.collective;
    if (which == Collective::kAllToAll || which == Collective::kGather ||
        which == Collective::kScatter)
      return run_as_messages(call);
  }
  if (!(call.record == planned_for)) {
    const Result<Plan> made = make_plan(facts, call.record);
    if (!made.ok()) {
      // The same on every rank that makes this call; who makes another must not wait in vain.
      (void)announce_empty(call.record);
      return made.error();
    }
    plan = *made;
    planned_for = call.record;
  }
  last_plan = {plan.algorithm, plan.protocol, plan.rounds.size()};
  current = call.record;
  host::HostCall host_call;
  host_call.record = call.record;
  host_call.input = call.send;
  host_call.output = call.receive;
  host_call.type = call.record.type;
  host_call.op = call.record.op;
  host_call.root = call.record.root;
  host_call.scalar = call.scalar.data();
  std::int32_t token = 1, tokens = 0;  // a barrier between hosts: everybody's is in everybody's sum
  if (call.record.collective == Collective::kBarrier && facts.hosts > 1) {
    host_call.input = &token;
    host_call.output = &tokens;
    host_call.type = DataType::kInt32;
    host_call.op = RedOp::kSum;
  }
  const AlgorithmRow& row = *plan.row;
  host_call.may_expose_input = plan.expose && is_among(row.inputs, rank, call.record.root) &&
                               (row.in_place_safe || !in_place(call, rank));
  host_call.may_expose_output = plan.expose && is_among(row.outputs, rank, call.record.root);
  host_call.stream_stores = plan.stream_stores;
  Done result;
  if (plan.protocol == Protocol::kSimple) {
    result = run_connected(host_call, plan);
  } else if (plan.protocol == Protocol::kMixed) {
    result = run_hierarchical(host_call, plan);
  } else if (!host::run_direct(host, host_call, plan.algorithm, carrier_of(plan.protocol),
                               plan.rounds)) {
    result = why_it_ended();
  }
  if (result.ok()) host.finish_call();
  current = CallRecord{};
  return result;
}

}  // namespace rondo
