// SPDX-License-Identifier: Apache-2.0
#include "collectives/gpu/memory/suspension.h"

#include <algorithm>
#include <cassert>

#include "base/atomics.h"
#include "base/log.h"
#include "base/poll_until.h"
#include "collectives/gpu/agree/memory_exchange.h"
#include "transport/cuda/device.h"

namespace rondo::gpu {
namespace {

// Waits for `holds` until the deadline or until the caller gives up; what: "timed out while ...".
template <class Holds>
Status wait_while_standing(Holds&& holds, const net::Deadline& deadline, const std::string& what) {
  bool gave_up = false;
  const bool came = poll_until(
      [&] { return holds() || (gave_up = deadline.aborted && deadline.aborted()); }, deadline.at);
  if (gave_up) return fail(StatusCode::kInvalidUsage, "the communicator ended while {}", what);
  if (!came) return fail(StatusCode::kTimeout, "timed out while {}", what);
  return ok_status();
}

}  // namespace

Status Suspension::suspend(int rank, const std::function<bool()>& is_over,
                           const net::Deadline& deadline) {
  RONDO_CHECK_OK(wait_while_standing(
      is_over, deadline, fmt::format("rank {} waited for its calls before its suspension", rank)));
  std::lock_guard lock(mutex_);
  const std::uint64_t round = ++rounds_[rank];
  for (const int other : local_)
    if (rounds_[other] < round) return ok_status();
  suspensions_ = round;
  is_suspended_ = true;
  std::lock_guard restoring(restoring_);
  is_lent_ = false;
  return drop(DroppableMemory::Which::kAll);
}

Status Suspension::drop(DroppableMemory::Which which) {
  const RelaxedCapture relaxed;
  ++round_;
  is_dropped_ = true;
  Status gone = memory_.drop(which);
  if (others_)
    HostAtomics::store_release(others_->segment.process(others_->process).suspended, round_);
  return gone;
}

Status Suspension::lend() {
  std::lock_guard restoring(restoring_);
  is_lent_ = true;
  return drop(DroppableMemory::Which::kWithoutContent);
}

std::uint64_t Suspension::own_bytes() const {
  std::uint64_t sum = 0;
  for (const int rank : local_) sum += memory_.bytes(rank).droppable;
  return sum;
}

Status Suspension::take_again(const net::Deadline& deadline) {
  std::lock_guard lock(mutex_);
  if (!is_lent_) return ok_status();
  RONDO_CHECK_OK(bring_back(true, deadline));
  is_lent_ = false;
  return ok_status();
}

Status Suspension::resume(int rank, const net::Deadline& deadline) {
  RONDO_CHECK_OK(wait_while_standing(
      [&] { return all_are_suspended(rank); }, deadline,
      fmt::format("rank {} waited for ncclCommSuspend of the other ranks of its process", rank)));
  std::lock_guard lock(mutex_);
  if (!is_suspended_) return ok_status();
  RONDO_CHECK_OK(bring_back(false, deadline));
  is_suspended_ = false;
  return ok_status();
}

bool Suspension::all_are_suspended(int rank) const {
  std::lock_guard lock(mutex_);
  return suspensions_ >= rounds_.at(rank);
}

std::uint64_t Suspension::newest_round() {
  std::lock_guard restoring(restoring_);
  return round_;
}

bool Suspension::has_left(int process) const {
  return HostAtomics::load_acquire(others_->segment.process(process).left) != 0;
}

std::vector<int> Suspension::others_that_stay() const {
  std::vector<int> found;
  for (int p = 0; p < others_->segment.processes(); ++p)
    if (p != others_->process && !has_left(p)) found.push_back(p);
  return found;
}

// With mutex_, so no round begins meanwhile.
Status Suspension::bring_back(bool was_lent, const net::Deadline& deadline) {
  const RelaxedCapture relaxed;
  const int processes = others_ ? others_->segment.processes() : 0;
  const std::uint64_t round = newest_round();
  // What others still write goes to what they have mapped: freed memory, or memory that could not
  // be dropped. After a recall nobody writes.
  for (int p = 0; p < processes && !was_lent; ++p)
    RONDO_CHECK_OK(wait_for(round, false, p, deadline));
  RONDO_CHECK_OK(restore(round));
  if (!others_) return ok_status();
  for (const int p : was_lent ? others_that_stay() : others_->beside)
    RONDO_CHECK_OK(others_->exchange.ask(
        p, {MemoryNote::kRestore, static_cast<std::uint32_t>(round)}, {}, deadline));
  // Counters in host memory are zeroed by the side that raises them; old ones would pass for new.
  for (int p = 0; p < processes; ++p)
    if (!was_lent || !has_left(p)) RONDO_CHECK_OK(wait_for(round, true, p, deadline));
  return memory_.bring_back_mapped(
      [&](int process, const MemoryNote::Question& question) -> Result<MemoryHandle> {
        if (was_lent && has_left(process)) return MemoryHandle{};
        RONDO_CHECK_OK(wait_for(round, true, process, deadline));
        RONDO_TRY(auto reply, others_->exchange.ask(process, question, {}, deadline));
        return std::move(reply.handle);
      });
}

Status Suspension::restore(std::uint64_t round) {
  std::lock_guard lock(restoring_);
  if (restored_ >= round) return ok_status();
  assert(round <= round_);
  RONDO_CHECK_OK(memory_.bring_back());
  restored_ = round;
  is_dropped_ = restored_ < round_;
  if (others_)
    HostAtomics::store_release(others_->segment.process(others_->process).resumed, round);
  return ok_status();
}

Status Suspension::wait_for(std::uint64_t round, bool resumed, int process,
                            const net::Deadline& deadline) {
  ProcessLines& lines = others_->segment.process(process);
  const auto& of = others_->process_of;
  return wait_while_standing(
      [&] { return HostAtomics::load_acquire(resumed ? lines.resumed : lines.suspended) >= round; },
      deadline,
      fmt::format("waiting for {} of rank {}", resumed ? "ncclCommResume" : "ncclCommSuspend",
                  std::find(of.begin(), of.end(), process) - of.begin()));
}

}  // namespace rondo::gpu
