// SPDX-License-Identifier: Apache-2.0
#include "kernels/host/call_recorder.h"

#include <time.h>

#include <array>
#include <cassert>
#include <limits>
#include <utility>

namespace rondo::host {
namespace {

// The words of a CallTrace that change after its call has begun.
constexpr std::size_t kEnded = 3, kWaits = 6, kState = 7;
static_assert(offsetof(CallTrace, ended) == kEnded * 8 && offsetof(CallTrace, call) == 4 * 8 &&
              offsetof(CallTrace, first_wait) == kWaits * 8 &&
              offsetof(CallTrace, longest_wait_for) == kState * 8);
static_assert(std::endian::native == std::endian::little);
constexpr int kAlgorithmBit = 40, kResultBit = 56;  // of kState

struct LastWords {
  std::uint32_t first_wait, longest_wait;
  std::int32_t longest_wait_for;
  std::uint8_t waits, algorithm, protocol, result;
};
static_assert(sizeof(LastWords) == 16);

std::uint32_t in_units(std::uint64_t ticks) {
  return static_cast<std::uint32_t>(
      std::min<std::uint64_t>(ticks >> 10, std::numeric_limits<std::uint32_t>::max()));
}

// The wall clock at a moment of CLOCK_MONOTONIC: by the closest of a few pairs of readings, because
// a busy machine may stop the thread between two.
std::int64_t wall_time_at(std::int64_t monotonic_ns) {
  std::int64_t ahead = 0, width = std::numeric_limits<std::int64_t>::max();
  for (int i = 0; i < 5; ++i) {
    timespec wall{};
    const std::int64_t before = now_ns();
    clock_gettime(CLOCK_REALTIME, &wall);
    const std::int64_t taken = now_ns() - before;
    if (taken >= width) continue;
    width = taken;
    ahead = wall.tv_sec * 1'000'000'000LL + wall.tv_nsec - before - taken / 2;
  }
  return monotonic_ns + ahead;
}

void add(std::uint64_t& word, std::uint64_t amount) {
  HostAtomics::store_relaxed(word, HostAtomics::load_relaxed(word) + amount);
}

}  // namespace

bool CallRecorder::start() {
  TraceRing* const ring = std::exchange(setup_.ring, nullptr);
  if (ring == nullptr || !setup_.commit(ring, sizeof(TraceRing))) {
    enabled_ = observer_ != nullptr;
    return false;
  }
  const TickReading now = read_ticks();
  TraceOrigin& origin = ring->origin;
  origin.ticks = now.ticks;
  origin.monotonic_ns = now.monotonic_ns;
  origin.wall_ns = wall_time_at(now.monotonic_ns);
  origin.offset_ns = setup_.origin.offset_ns;
  origin.offset_error_ns = setup_.origin.offset_error_ns;
  HostAtomics::store_release(origin.communicator, setup_.origin.communicator);
  ring_ = ring;
  next_ = &line_of(1);
  only_brief_ = setup_.brief && observer_ == nullptr;
  return true;
}

inline void CallRecorder::write(const CallRecord& call, std::uint64_t sequence,
                                std::uint64_t entered) {
  struct Halves {
    std::uint64_t first, second;
  };
  const auto halves = std::bit_cast<Halves>(call);
  TraceLine& line = *next_;
  const std::uint64_t number = number_ + 1;
  TraceLine& next = line_of(number + 1);
  const std::uint64_t state = std::uint64_t{how_} << kAlgorithmBit | 0xffff'ffff;
  number_ = number;
  next_ = &next;
  how_ = kUnknown;
  newest_entered_ = entered;
  ++open_;
  HostAtomics::store_relaxed(line.words[0], std::uint64_t{0});
  HostAtomics::store_release(line.words[1], sequence);
  HostAtomics::store_release(line.words[2], entered);
  HostAtomics::store_release(line.words[kEnded], std::uint64_t{0});
  HostAtomics::store_release(line.words[4], halves.first);
  HostAtomics::store_release(line.words[5], halves.second);
  HostAtomics::store_release(line.words[kWaits], std::uint64_t{0});
  HostAtomics::store_release(line.words[kState], state);
  HostAtomics::store_release(line.words[0], number);
  HostAtomics::prefetch_to_write(next.words[0]);
}

// When the next call was entered.
inline std::uint64_t CallRecorder::take_entry() {
  const std::uint64_t noted = entered_;
  if (noted == 0) [[likely]]
    return ticks();
  entered_ = 0;
  return noted;
}

void CallRecorder::record(const CallRecord& call, std::uint64_t sequence) {
  if (!only_brief_) [[unlikely]]
    return record_whole(call, sequence);
  const std::uint64_t entered = take_entry();
  timed_ =
      (entered - newest_entered_ >= kBurstTicks) | (call.count >= kBurstElements) | (sequence == 0);
  write(call, sequence, entered);
}

void CallRecorder::record_whole(const CallRecord& call, std::uint64_t sequence) {
  timed_ = true;
  if (observer_ != nullptr)
    observer_->on_begin(static_cast<std::uint8_t>(how_), static_cast<std::uint8_t>(how_ >> 8));
  if (ring_ == nullptr && !start()) {
    how_ = kUnknown;
    open_ += observer_ != nullptr;
    return;
  }
  write(call, sequence, take_entry());
  count(call);
}

void CallRecorder::count(const CallRecord& call) {
  if (setup_.brief) return;
  const std::uint64_t bytes = elements_of(call) * size_of(call.type);
  total_ = &ring_->totals[static_cast<int>(call.collective)][trace_size_of(bytes)];
  add(total_->calls, 1);
  add(total_->bytes, bytes);
}

void CallRecorder::write_ended(const CallRecord& call, std::uint64_t entered, StatusCode result) {
  if (ring_ == nullptr && !start()) return;
  write(call, 0, entered);
  count(call);
  end_open(result);
}

std::uint64_t CallRecorder::write_open(const CallRecord& call, std::uint64_t sequence) {
  if (ring_ == nullptr) return 0;
  write(call, sequence, ticks());
  open_ = 0;  // end_one() ends it
  count(call);
  return number_;
}

void CallRecorder::end_one(std::uint64_t number, StatusCode result) {
  if (ring_ == nullptr || number == 0) return;
  TraceLine& line = line_of(number);
  if (HostAtomics::load_acquire(line.words[0]) != number) return;  // written over
  const std::uint64_t state = HostAtomics::load_relaxed(line.words[kState]) |
                              static_cast<std::uint64_t>(result) << kResultBit;
  HostAtomics::store_relaxed(line.words[kState], state);
  HostAtomics::store_release(line.words[kEnded], ticks());
}

bool CallRecorder::end_observed() {
  observer_->on_end();
  if (ring_ == nullptr) open_ = 0;
  return ring_ != nullptr;
}

void CallRecorder::end_open(StatusCode result) {
  const std::uint64_t ended = ticks();
  const TraceLine& newest = line_of(number_);
  const std::uint64_t waits = HostAtomics::load_relaxed(newest.words[kWaits]);
  const std::uint64_t state = HostAtomics::load_relaxed(newest.words[kState]) |
                              static_cast<std::uint64_t>(result) << kResultBit;
  if (total_ != nullptr) {
    add(total_->finished, open_);
    add(total_->spent_ticks, ended - newest_entered_);
  }
  assert(open_ > 0 && ring_ != nullptr);
  open_ = std::min<std::uint64_t>(open_, kTracedCalls);
  do {
    TraceLine& line = line_of(number_ - --open_);
    HostAtomics::store_relaxed(line.words[kWaits], waits);
    HostAtomics::store_relaxed(line.words[kState], state);
    HostAtomics::store_release(line.words[kEnded], ended);
  } while (open_ > 0);
}

void CallRecorder::end_wait(int peer) {
  if (ring_ == nullptr) return;
  const std::uint64_t waited = ticks() - waits_since_;
  add(ring_->waits, 1);
  add(ring_->waited_ticks, waited);
  if (open_ == 0) return;
  timed_ = true;
  TraceLine& line = line_of(number_);
  using Words = std::array<std::uint64_t, 2>;
  auto last = std::bit_cast<LastWords>(Words{HostAtomics::load_relaxed(line.words[kWaits]),
                                             HostAtomics::load_relaxed(line.words[kState])});
  if (last.waits == 0) last.first_wait = in_units(waits_since_ - newest_entered_);
  if (last.waits < std::numeric_limits<std::uint8_t>::max()) ++last.waits;
  if (in_units(waited) >= last.longest_wait) {
    last.longest_wait = in_units(waited);
    last.longest_wait_for = peer;
  }
  const auto words = std::bit_cast<Words>(last);
  HostAtomics::store_relaxed(line.words[kWaits], words[0]);
  HostAtomics::store_relaxed(line.words[kState], words[1]);
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
