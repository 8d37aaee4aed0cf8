// SPDX-License-Identifier: Apache-2.0
#include "collectives/gpu/processes/call_announcements.h"

#include <algorithm>
#include <cassert>
#include <chrono>
#include <cmath>

#include "base/atomics.h"
#include "base/poll_until.h"
#include "collectives/faults/fault_texts.h"
#include "collectives/faults/peer_words.h"
#include "collectives/gpu/processes/process_context.h"

namespace rondo::gpu {

CallAnnouncements::CallAnnouncements(ProcessContext& context)
    : context_(context),
      leader_calls_(kPlainDescriptors),
      commands_(kPlainDescriptors),
      captured_(static_cast<std::size_t>(context.ranks()), kPlainDescriptors) {}

void CallAnnouncements::publish_for_leader(std::uint64_t sequence) {
  leader_calls_[sequence % kPlainDescriptors] = sequence;
  publish(sequence);
}

Status CallAnnouncements::announce(const CallRecord& record, bool capturing, Mismatch* mismatch) {
  RONDO_CHECK_OK(context_.standing.check());
  if (capturing) return ok_status();  // kernels report what they replay
  std::uint64_t commands = kCommandsOfKernel * context_.local.size();
  if (record.by_engines())  // a meeting more, and up to a copy for each rank
    commands += 1 + static_cast<std::uint64_t>(context_.ranks());
  RONDO_TRY(const std::uint64_t sequence, next({commands, false}));
  cuda::CallDescriptor made{};
  made.record = record;
  made.sequence = sequence;
  for (const int rank : context_.local) RONDO_CHECK_OK(place(rank, made));
  publish(sequence);
  return compare(sequence, record, mismatch);
}

void CallAnnouncements::publish(std::uint64_t sequence) {
  assert(sequence == newest() + 1 && "calls are announced in their order");
  commands_[sequence % kPlainDescriptors] =
      commands_[(sequence - 1) % kPlainDescriptors] + next_commands_;
  sequence_.store(sequence, std::memory_order_release);
  HostAtomics::store_release(context_.segment->process(context_.facts.process).announced, sequence);
}

std::uint64_t CallAnnouncements::slowest() const {
  std::uint64_t all = newest();
  for (int p = 0; p < context_.segment->processes(); ++p)
    all = std::min(all, HostAtomics::load_acquire(context_.segment->process(p).announced));
  return all;
}

// True if the descriptor that this call overwrites is no longer needed, neither by the leader's
// kernel nor by a process that still has to compare it with its own; and the driver's queue has
// room for the call behind those that another process has not announced.
bool CallAnnouncements::has_room(std::uint64_t sequence, const Commands& commands) const {
  if (HostAtomics::load_acquire(context_.segment->words().consumed) <
      leader_calls_[sequence % kPlainDescriptors])
    return false;
  const std::uint64_t seen = slowest();
  if (seen + kPlainDescriptors < sequence) return false;
  // The other ranks of this thread may come later.
  const bool waits_alone = commands.waits && context_.facts.beside.empty();
  if (sequence - seen <= (waits_alone ? 1 : kCallsAhead)) return true;
  const std::uint64_t open =
      commands_[(sequence - 1) % kPlainDescriptors] - commands_[seen % kPlainDescriptors];
  return open + commands.number <= (commands.waits ? kCommandsOfWaitsAhead : kCommandsAhead);
}

// The time limit counts from the newest call that another process has announced.
Result<std::uint64_t> CallAnnouncements::next(const Commands& commands) {
  const std::uint64_t sequence = newest() + 1;
  next_commands_ = commands.number;
  while (!has_room(sequence, commands)) {
    RONDO_CHECK_OK(context_.standing.check());
    const std::uint64_t seen = slowest();
    const auto begin = std::chrono::steady_clock::now();
    const auto moves = [&] {
      return has_room(sequence, commands) || slowest() != seen || !context_.standing.check().ok();
    };
    if (poll_until(moves, context_.standing.deadline().at)) continue;
    const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - begin;
    return timed_out(std::round(waited.count()));
  }
  return sequence;
}

Error CallAnnouncements::timed_out(double seconds) const {
  const std::uint64_t seen = slowest();
  std::vector<int> missing;
  for (int rank = 0; rank < context_.ranks(); ++rank) {
    const int process = context_.facts.around.process_of[static_cast<std::size_t>(rank)];
    if (HostAtomics::load_acquire(context_.segment->process(process).announced) == seen)
      missing.push_back(rank);
  }
  return {StatusCode::kTimeout,
          fault_texts::timed_out_ahead_of(context_.local[0], seconds, newest() - seen, missing)};
}

// A plain call's descriptor takes its turn in the ring. A captured one stays; equal calls share it.
Result<std::uint32_t> CallAnnouncements::place(int rank, const cuda::CallDescriptor& made) {
  std::uint32_t index = static_cast<std::uint32_t>(made.sequence % kPlainDescriptors);
  if (made.sequence == 0) {
    const auto same = [&](const cuda::CallDescriptor& other) {
      return other.record == made.record && other.send == made.send &&
             other.receive == made.receive && other.scalar == made.scalar &&
             other.flags == made.flags;
    };
    for (index = kPlainDescriptors; index < captured_[rank]; ++index)
      if (same(context_.segment->descriptor(rank, index))) return index;
    if (index == context_.segment->depth())
      return fail(StatusCode::kInvalidUsage,
                  "rank {} has captured {} different calls into graphs, the most that ranks on a "
                  "shared GPU can: capture calls on the same buffers, or use another communicator",
                  rank, index - kPlainDescriptors);
    ++captured_[rank];
  }
  assert(index < context_.segment->depth() && (made.sequence == 0) == (index >= kPlainDescriptors));
  cuda::CallDescriptor& at = context_.segment->descriptor(rank, index);
  at.send = made.send;
  at.receive = made.receive;
  at.scalar = made.scalar;
  at.flags = made.flags;
  store_record(at.record, made.record);
  HostAtomics::store_seq_cst(at.sequence, made.sequence);
  return index;
}

Status CallAnnouncements::compare(std::uint64_t sequence, const CallRecord& record,
                                  Mismatch* mismatch) const {
  HostAtomics::fence_seq_cst();
  const int first = context_.local[0];
  for (int r = 0; r < context_.ranks(); ++r) {
    if (context_.is_local(r)) continue;
    const cuda::CallDescriptor& theirs =
        context_.segment->descriptor(r, static_cast<std::uint32_t>(sequence % kPlainDescriptors));
    if (HostAtomics::load_acquire(theirs.sequence) != sequence) continue;
    const CallRecord other = load_record(theirs.record);
    if (other == record) continue;
    *mismatch = {r, record, other, fault_texts::different_calls(sequence, first, record, r, other)};
    return fail(StatusCode::kInvalidUsage, "{}", mismatch->text);
  }
  return ok_status();
}

}  // namespace rondo::gpu
