// SPDX-License-Identifier: Apache-2.0
// CallRecorder: writes each call of a rank to its black box, a ring in shared memory (TraceRing).
//
// A call is written when it is announced, and again when it ends. So a call that never ends stays
// visible, without an end. Waits count once they leave the Waiter's spin phase; their supervisor
// reports them. A brief record skips what costs most where calls are short: it counts nothing, and
// does not time the end of a call in a burst, which is small, follows the call before within
// kBurstTicks, and waits for no rank beyond the spin phase. Readers know by ProgressLine::finished
// that such a call has ended.
// Guarantees: one thread at a time writes (the rank's own); a reader in another process never takes
// half a record for a whole one; if there is no memory for the ring, calls run without it. Cost: a
// brief record reads the clock once a call and writes one cache line, while the call waits for its
// peers; a whole one reads it twice, and adds to four words.
#pragma once

#include <algorithm>
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

// Calls that begin within this time of one another are a burst. A few microseconds, so that the end
// of any other call costs little beside it.
#if defined(__x86_64__)
inline constexpr std::uint64_t kBurstTicks = 1 << 14;
#else
inline constexpr std::uint64_t kBurstTicks = 1 << 8;
#endif
inline constexpr std::uint64_t kBurstElements = 1024;  // a larger call is in no burst

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
    bool brief = false;
  };
  void set_up(const Setup& setup) {
    setup_ = setup;
    enabled_ = setup.ring != nullptr || observer_ != nullptr;
  }
  // With or without a ring. It lives longer than the last call.
  void observe_by(CallObserver& observer) {
    observer_ = &observer;
    enabled_ = true;
    only_brief_ = false;
  }
  bool records() const { return ring_ != nullptr; }

  // How the next call runs: an Algorithm and a Protocol.
  template <class Algorithm, class Protocol>
  void choose(Algorithm algorithm, Protocol protocol) {
    how_ = static_cast<std::uint16_t>(static_cast<std::uint8_t>(algorithm) |
                                      static_cast<std::uint8_t>(protocol) << 8);
  }
  // A call that does much before it is announced has been entered.
  void enter() {
    if (enabled_) entered_ = ticks();
  }

  // For calls that overlap each other: they enter the ring once they have ended. `entered`: when
  // they began.
  bool has_ring() const { return ring_ != nullptr || setup_.ring != nullptr; }
  void write_ended(const CallRecord& call, std::uint64_t entered, StatusCode result);

  // Of another library's calls, which end in any order, on any thread. open_ring(): before the
  // first one. write_open() returns the trace's number, for end_one(). One thread at a time writes.
  bool open_ring() { return ring_ != nullptr || start(); }
  std::uint64_t write_open(const CallRecord& call, std::uint64_t sequence);
  void end_one(std::uint64_t number, StatusCode result);

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
  // Of an announced call, which ProgressLine::finished already shows as complete.
  void end_finished() {
    if (!timed_) {
      open_ = 0;
    } else {
      end(StatusCode::kSuccess);
    }
  }

  // A wait has left the spin phase; it has ended.
  void begin_wait() {
    if (enabled_) waits_since_ = ticks();
  }
  void end_wait(int peer);

 private:
  static constexpr std::uint16_t kUnknown = 0xffff;  // neither algorithm nor protocol

  void record(const CallRecord& call, std::uint64_t sequence);
  void record_whole(const CallRecord& call, std::uint64_t sequence);
  void write(const CallRecord& call, std::uint64_t sequence, std::uint64_t entered);
  void count(const CallRecord& call);
  std::uint64_t take_entry();
  void end_open(StatusCode result);
  bool start();
  bool end_observed();  // false: there is no ring to write
  TraceLine& line_of(std::uint64_t number) { return ring_->lines[number % kTracedCalls]; }

  bool enabled_ = false;
  bool only_brief_ = false;  // a ring alone, which needs a brief record
  bool timed_ = false;       // the end of the open call gets its time
  std::uint16_t how_ = kUnknown;
  TraceRing* ring_ = nullptr;
  TraceLine* next_ = nullptr;
  std::uint64_t number_ = 0;   // of the newest trace
  std::uint64_t open_ = 0;     // traces without an end
  std::uint64_t entered_ = 0;  // the next call; 0: not yet
  std::uint64_t newest_entered_ = 0;
  CallObserver* observer_ = nullptr;
  TraceTotal* total_ = nullptr;  // of the newest call; null: nothing is counted
  std::uint64_t waits_since_ = 0;
  Setup setup_;
};

// A copy of the line's call; `number` is 0 if it has none, or its rank is writing it.
CallTrace load_trace(const TraceLine& line);

}  // namespace rondo::host
