// SPDX-License-Identifier: Apache-2.0
// CallRecorder: writes each call of a rank to its black box, a ring in shared memory (TraceRing).
//
// A call is written twice: when it is announced, and when it ends. So a call that never ends stays
// visible, without an end. Waits count once they leave the Waiter's spin phase; their supervisor
// reports them. Guarantees: one thread at a time writes (the rank's own); a reader in another
// process never takes half a record for a whole one; if there is no memory for the ring, calls run
// without it. Cost: a call of one cache line writes its record while it waits for its peers. At its
// end it reads the clock and stores three words of a line that is in its cache.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "base/atomics.h"
#include "base/result.h"
#include "base/ticks.h"
#include "transport/connection.h"

namespace rondo::host {

// Class of a call's size: up to 1 KiB, 32 KiB, 1 MiB, 32 MiB, 1 GiB, or above.
constexpr int trace_size_of(std::uint64_t bytes) {
  return bytes <= 1 ? 0
                    : std::clamp((static_cast<int>(std::bit_width(bytes - 1)) - 6) / 5, 0,
                                 kTraceSizes - 1);
}
static_assert(trace_size_of(1024) == 0 && trace_size_of(1025) == 1 && trace_size_of(32768) == 1);
static_assert(trace_size_of(1 << 20) == 2 && trace_size_of(std::uint64_t{1} << 40) == 5);

// Learns of each call that the recorder writes, on the rank's thread.
class CallObserver {
 public:
  virtual ~CallObserver() = default;
  // algorithm, protocol: as choose() got them; 0xff: none.
  virtual void on_begin(std::uint8_t algorithm, std::uint8_t protocol) = 0;
  virtual void on_end() = 0;  // of all calls that have begun
};

class CallRecorder {
 public:
  // ring: has no memory yet; the first call commits it. commit: false if there is none.
  // origin: its identity and offset; the first call adds the clocks.
  struct Setup {
    TraceRing* ring = nullptr;
    bool (*commit)(void* at, std::size_t bytes) = nullptr;
    TraceOrigin origin{};
  };
  void set_up(const Setup& setup) {
    setup_ = setup;
    enabled_ = setup.ring != nullptr || observer_ != nullptr;
  }
  // With or without a ring. It lives longer than the last call.
  void observe_by(CallObserver& observer) {
    observer_ = &observer;
    enabled_ = true;
  }
  bool records() const { return ring_ != nullptr; }

  // How the next call runs: an Algorithm and a Protocol.
  template <class Algorithm, class Protocol>
  void choose(Algorithm algorithm, Protocol protocol) {
    algorithm_ = static_cast<std::uint8_t>(algorithm);
    protocol_ = static_cast<std::uint8_t>(protocol);
  }
  // A call that does much before it is announced has been entered.
  void enter() {
    if (enabled_) entered_ = ticks();
  }

  // For calls that overlap each other: they enter the ring once they have ended. `entered`: when
  // they began.
  bool has_ring() const { return ring_ != nullptr || setup_.ring != nullptr; }
  void write_ended(const CallRecord& call, std::uint64_t entered, StatusCode result) {
    if (ring_ == nullptr && !start()) return;
    entered_ = entered;
    write(call, 0);
    end_open(result);
  }

  // sequence: number of the announced call; 0: a message.
  void begin(const CallRecord& call, std::uint64_t sequence) {
    if (enabled_) record(call, sequence);
  }

  // Ends all calls that have begun: one, or the messages of a group.
  void end(StatusCode result) {
    if (open_ == 0) return;
    if (observer_ != nullptr && !end_observed()) [[unlikely]]
      return;
    end_open(result);
  }

  // A wait has left the spin phase; it has ended.
  void begin_wait() {
    if (enabled_) waits_since_ = ticks();
  }
  void end_wait(int peer);

 private:
  using Words = std::array<std::uint64_t, 8>;
  static constexpr std::uint8_t kNone = 0xff;

  void record(const CallRecord& call, std::uint64_t sequence);
  void write(const CallRecord& call, std::uint64_t sequence);
  void end_open(StatusCode result) {
    newest_.ended = ticks();
    newest_.result = static_cast<std::uint8_t>(result);
    const auto words = std::bit_cast<Words>(newest_);
    add(total_->finished, open_);
    add(total_->spent_ticks, newest_.ended - newest_.entered);
    open_ = std::min<std::uint64_t>(open_, kTracedCalls);
    do {
      TraceLine& line = line_of(number_ - --open_);
      HostAtomics::store_relaxed(line.words[6], words[6]);
      HostAtomics::store_relaxed(line.words[7], words[7]);
      HostAtomics::store_release(line.words[3], words[3]);
    } while (open_ > 0);
  }
  bool start();
  bool end_observed();  // false: there is no ring to write
  TraceLine& line_of(std::uint64_t number) { return ring_->lines[number % kTracedCalls]; }
  static void add(std::uint64_t& word, std::uint64_t amount) {
    HostAtomics::store_relaxed(word, HostAtomics::load_relaxed(word) + amount);
  }

  bool enabled_ = false;
  CallObserver* observer_ = nullptr;
  TraceRing* ring_ = nullptr;
  TraceTotal* total_ = nullptr;
  std::uint64_t number_ = 0;  // of the newest trace
  std::uint64_t open_ = 0;    // traces without an end
  std::uint64_t entered_ = 0;
  std::uint64_t waits_since_ = 0;
  std::uint8_t algorithm_ = kNone, protocol_ = kNone;
  CallTrace newest_;
  Setup setup_;
};

// A copy of the line's call; `number` is 0 if it has none, or its rank is writing it.
CallTrace load_trace(const TraceLine& line);

}  // namespace rondo::host
