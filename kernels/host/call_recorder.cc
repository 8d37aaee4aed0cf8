// SPDX-License-Identifier: Apache-2.0
#include "kernels/host/call_recorder.h"

#include <time.h>

#include <limits>
#include <utility>

namespace rondo::host {
namespace {

std::uint32_t in_units(std::uint64_t ticks) {
  return static_cast<std::uint32_t>(
      std::min<std::uint64_t>(ticks >> 10, std::numeric_limits<std::uint32_t>::max()));
}

}  // namespace

bool CallRecorder::start() {
  TraceRing* const ring = std::exchange(setup_.ring, nullptr);
  if (ring == nullptr || !setup_.commit(ring, sizeof(TraceRing))) {
    enabled_ = observer_ != nullptr;
    return false;
  }
  const TickReading now = read_ticks();
  timespec wall{};
  clock_gettime(CLOCK_REALTIME, &wall);
  TraceOrigin& origin = ring->origin;
  origin.ticks = now.ticks;
  origin.monotonic_ns = now.monotonic_ns;
  origin.wall_ns = wall.tv_sec * 1'000'000'000LL + wall.tv_nsec;
  origin.offset_ns = setup_.origin.offset_ns;
  origin.offset_error_ns = setup_.origin.offset_error_ns;
  HostAtomics::store_release(origin.communicator, setup_.origin.communicator);
  ring_ = ring;
  return true;
}

void CallRecorder::record(const CallRecord& call, std::uint64_t sequence) {
  if (observer_ != nullptr) [[unlikely]]
    observer_->on_begin(algorithm_, protocol_);
  if (ring_ == nullptr && !start()) [[unlikely]] {
    algorithm_ = protocol_ = kNone;
    open_ += observer_ != nullptr;
    return;
  }
  write(call, sequence);
}

void CallRecorder::write(const CallRecord& call, std::uint64_t sequence) {
  newest_ = CallTrace{};
  newest_.number = ++number_;
  newest_.sequence = sequence;
  newest_.entered = entered_ != 0 ? entered_ : ticks();
  newest_.call = call;
  newest_.algorithm = algorithm_;
  newest_.protocol = protocol_;
  entered_ = 0;
  algorithm_ = protocol_ = kNone;
  const auto words = std::bit_cast<Words>(newest_);
  TraceLine& line = line_of(number_);
  HostAtomics::store_relaxed(line.words[0], std::uint64_t{0});
  for (std::size_t i = 1; i < words.size(); ++i)
    HostAtomics::store_release(line.words[i], words[i]);
  HostAtomics::store_release(line.words[0], words[0]);
  const std::uint64_t bytes = elements_of(call) * size_of(call.type);
  total_ = &ring_->totals[static_cast<int>(call.collective)][trace_size_of(bytes)];
  add(total_->calls, 1);
  add(total_->bytes, bytes);
  ++open_;
  HostAtomics::prefetch_to_write(line_of(number_ + 1).words[0]);
}

bool CallRecorder::end_observed() {
  observer_->on_end();
  if (ring_ == nullptr) open_ = 0;
  return ring_ != nullptr;
}

void CallRecorder::end_wait(int peer) {
  if (ring_ == nullptr) return;
  const std::uint64_t waited = ticks() - waits_since_;
  add(ring_->waits, 1);
  add(ring_->waited_ticks, waited);
  if (open_ == 0) return;
  if (newest_.waits == 0) newest_.first_wait = in_units(waits_since_ - newest_.entered);
  if (newest_.waits < std::numeric_limits<std::uint8_t>::max()) ++newest_.waits;
  if (in_units(waited) < newest_.longest_wait) return;
  newest_.longest_wait = in_units(waited);
  newest_.longest_wait_for = peer;
}

CallTrace load_trace(const TraceLine& line) {
  std::array<std::uint64_t, 8> words{};
  words[0] = HostAtomics::load_acquire(line.words[0]);
  for (std::size_t i = 1; i < words.size(); ++i)
    words[i] = HostAtomics::load_acquire(line.words[i]);
  if (HostAtomics::load_relaxed(line.words[0]) != words[0]) words[0] = 0;
  return std::bit_cast<CallTrace>(words);
}

}  // namespace rondo::host
