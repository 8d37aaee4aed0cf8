// SPDX-License-Identifier: Apache-2.0
#include "collectives/gpu/memory/device_memory.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "base/atomics.h"
#include "base/log.h"
#include "base/poll_until.h"
#include "collectives/gpu/agree/process_meeting.h"
#include "transport/cuda/device.h"
#include "transport/memory/memory_registry.h"

namespace rondo::gpu {
namespace {

using State = DeviceMemory::State;
using Event = DeviceMemory::Event;

// By state and event, as in the header.
constexpr State kNext[][4] = {
    {State::kPresent, State::kAbsent, State::kAbsent, State::kAbsent},
    {State::kPresent, State::kSuspended, State::kLent, State::kPresent},
    {State::kSuspended, State::kSuspended, State::kSuspended, State::kPresent},
    {State::kLent, State::kSuspended, State::kLent, State::kPresent},
};
constexpr State next(State state, Event event) {
  return kNext[static_cast<int>(state)][static_cast<int>(event)];
}
constexpr bool is_freed(State state) { return state == State::kSuspended || state == State::kLent; }

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

void DeviceMemory::add(int rank, const std::byte* at, std::uint64_t bytes,
                       std::function<Status()> refill, std::function<Status()> let_go) {
  auto memory = memory_registry().virtual_at(at);
  std::lock_guard lock(blocks_mutex_);
  own_.push_back(
      {rank, bytes, std::move(memory), std::move(refill), std::move(let_go), State::kPresent});
}

void DeviceMemory::add_kept(int rank, std::uint64_t bytes, std::function<Status()> refill) {
  std::lock_guard lock(blocks_mutex_);
  own_.push_back({rank, bytes, nullptr, std::move(refill), {}, State::kPresent});
}

std::size_t DeviceMemory::add_absent(int rank, const std::byte* at, std::uint64_t bytes,
                                     std::function<Status()> refill) {
  auto memory = memory_registry().virtual_at(at);
  assert(memory != nullptr);
  std::lock_guard lock(blocks_mutex_);
  own_.push_back({rank, bytes, std::move(memory), std::move(refill), {}, State::kAbsent});
  return own_.size() - 1;
}

Result<bool> DeviceMemory::allocate(std::size_t block) {
  std::unique_lock lock(blocks_mutex_);
  if (own_[block].state != State::kAbsent) return false;
  const auto memory = own_[block].memory;
  const auto refill = own_[block].refill;
  lock.unlock();
  RONDO_CHECK_OK(with_room([&] { return memory->bring_back(); }));
  if (refill) RONDO_CHECK_OK(refill());
  lock.lock();
  own_[block].state = next(own_[block].state, Event::kAllocate);
  return true;
}

void DeviceMemory::add_mapped(int process, const MemoryNote::Question& question,
                              const std::byte* at, bool has_content) {
  auto memory = memory_registry().virtual_at(at);
  if (!memory) return;
  std::lock_guard lock(blocks_mutex_);
  mapped_.push_back({process, question, std::move(memory), has_content});
}

void DeviceMemory::ask_for_room(std::function<bool(bool urgent)> room) {
  std::lock_guard lock(blocks_mutex_);
  room_ = std::move(room);
}

bool DeviceMemory::asked_for_room(bool urgent) const {
  std::unique_lock lock(blocks_mutex_);
  const auto room = room_;
  lock.unlock();
  return room && room(urgent);
}

DeviceMemory::Bytes DeviceMemory::bytes(int rank) const {
  std::lock_guard lock(blocks_mutex_);
  Bytes sum;
  for (const Own& block : own_) {
    if (block.rank != rank || block.state == State::kAbsent || block.state == State::kLent)
      continue;
    (block.memory ? sum.droppable : sum.kept) += block.memory ? block.memory->bytes() : block.bytes;
  }
  return sum;
}

std::uint64_t DeviceMemory::own_bytes() const {
  std::uint64_t sum = 0;
  for (const int rank : local_) sum += bytes(rank).droppable;
  return sum;
}

Status DeviceMemory::suspend(int rank, const std::function<bool()>& is_over,
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
  return drop(Event::kSuspend);
}

Status DeviceMemory::lend() {
  std::lock_guard restoring(restoring_);
  is_lent_ = true;
  return drop(Event::kLend);
}

Status DeviceMemory::drop(Event event) {
  const RelaxedCapture relaxed;
  ++round_;
  is_dropped_ = true;
  Status gone = drop_blocks(event);
  if (others_)
    HostAtomics::store_release(others_->segment.process(others_->process).suspended, round_);
  return gone;
}

Status DeviceMemory::drop_blocks(Event event) {
  std::lock_guard lock(blocks_mutex_);
  ++drops_;
  lends_ += event == Event::kLend ? 1 : 0;
  for (const Mapped& block : mapped_)
    if (event == Event::kSuspend || !block.has_content) RONDO_CHECK_OK(block.memory->drop());
  for (Own& block : own_) {
    if (event == Event::kLend && !block.can_be_lent()) continue;
    const bool was_freed = is_freed(block.state);
    block.state = next(block.state, event);
    if (!block.memory || was_freed || !is_freed(block.state)) continue;
    if (block.let_go) RONDO_CHECK_OK(block.let_go());
    RONDO_CHECK_OK(block.memory->drop());
  }
  return ok_status();
}

Status DeviceMemory::take_again(const net::Deadline& deadline) {
  std::lock_guard lock(mutex_);
  if (!is_lent_) return ok_status();
  RONDO_CHECK_OK(bring_back(true, deadline));
  is_lent_ = false;
  return ok_status();
}

Status DeviceMemory::resume(int rank, const net::Deadline& deadline) {
  const auto all_are_suspended = [&] {
    std::lock_guard lock(mutex_);
    return suspensions_ >= rounds_.at(rank);  // as often as this rank
  };
  RONDO_CHECK_OK(wait_while_standing(
      all_are_suspended, deadline,
      fmt::format("rank {} waited for ncclCommSuspend of the other ranks of its process", rank)));
  std::lock_guard lock(mutex_);
  if (!is_suspended_) return ok_status();
  RONDO_CHECK_OK(bring_back(false, deadline));
  is_suspended_ = false;
  return ok_status();
}

bool DeviceMemory::has_left(int process) const {
  return HostAtomics::load_acquire(others_->segment.process(process).left) != 0;
}

// With mutex_, so no round begins meanwhile.
Status DeviceMemory::bring_back(bool was_lent, const net::Deadline& deadline) {
  const RelaxedCapture relaxed;
  const int processes = others_ ? others_->segment.processes() : 0;
  std::unique_lock restoring(restoring_);
  const std::uint64_t round = round_;
  restoring.unlock();
  // What others still write goes to what they have mapped: freed memory, or memory that could not
  // be freed. After a recall nobody writes.
  for (int p = 0; p < processes && !was_lent; ++p)
    RONDO_CHECK_OK(wait_for(round, false, p, deadline));
  RONDO_CHECK_OK(restore(round));
  const auto is_beside = [&](int p) {
    return std::find(others_->beside.begin(), others_->beside.end(), p) != others_->beside.end();
  };
  for (int p = 0; p < processes; ++p)
    if (p != others_->process && (was_lent ? !has_left(p) : is_beside(p)))
      RONDO_CHECK_OK(others_->exchange.ask(
          p, {MemoryNote::kRestore, static_cast<std::uint32_t>(round)}, {}, deadline));
  // Counters in host memory are zeroed by the side that raises them; old ones would pass for new.
  for (int p = 0; p < processes; ++p)
    if (!was_lent || !has_left(p)) RONDO_CHECK_OK(wait_for(round, true, p, deadline));
  return others_ ? restore_mapped(round, was_lent, deadline) : ok_status();
}

Status DeviceMemory::restore(std::uint64_t round) {
  std::lock_guard lock(restoring_);
  if (restored_ >= round) return ok_status();
  assert(round <= round_);
  RONDO_CHECK_OK(restore_own());
  restored_ = round;
  is_dropped_ = restored_ < round_;
  if (others_)
    HostAtomics::store_release(others_->segment.process(others_->process).resumed, round);
  return ok_status();
}

Status DeviceMemory::restore_own() {
  const auto allocate_all = [this]() -> Status {
    std::lock_guard lock(blocks_mutex_);
    for (const Own& block : own_)
      if (block.memory && is_freed(block.state)) RONDO_CHECK_OK(block.memory->bring_back());
    return ok_status();
  };
  RONDO_CHECK_OK(with_room(allocate_all));
  std::lock_guard lock(blocks_mutex_);
  for (const Own& block : own_)
    if (is_freed(block.state) && block.refill) RONDO_CHECK_OK(block.refill());
  for (Own& block : own_) block.state = next(block.state, Event::kRestore);
  return ok_status();
}

// Without the mutex of the blocks: the process that is asked may be asking this one at the same
// time. If a process has left, memory that nobody reads takes the place of its own.
Status DeviceMemory::restore_mapped(std::uint64_t round, bool was_lent,
                                    const net::Deadline& deadline) {
  std::unique_lock lock(blocks_mutex_);
  const std::vector<Mapped> all = mapped_;
  lock.unlock();
  for (const Mapped& block : all) {
    if (block.memory->is_mapped()) continue;
    if (was_lent && has_left(block.process)) {
      RONDO_CHECK_OK(block.memory->bring_back());
      continue;
    }
    RONDO_CHECK_OK(wait_for(round, true, block.process, deadline));
    RONDO_TRY(const auto reply, others_->exchange.ask(block.process, block.question, {}, deadline));
    RONDO_CHECK_OK(reply.handle.file ? block.memory->bring_back(reply.handle.file.get())
                                     : block.memory->bring_back());
  }
  return ok_status();
}

Status DeviceMemory::wait_for(std::uint64_t round, bool resumed, int process,
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
