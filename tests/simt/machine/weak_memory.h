// SPDX-License-Identifier: Apache-2.0
// WeakMemory: emulates the order in which stores of GPU threads become visible, as weak as PTX
// allows.
//
// A store waits in its thread's buffer, moves from there to its CTA's buffer (visible to the CTA),
// then to its device's buffer, and finally to memory. Stores to different addresses can overtake
// each other everywhere. A release or fence of some scope first pushes all that its thread has
// stored or seen in its CTA (barriers pass stores on) up to that scope. A load may return any value
// that the address held since the thread's newest acquire of the scope in which the change was
// made, but never one older than what the thread has seen or written there. Accesses are atomic up
// to 8 bytes, so lines of 16 and 128 bytes can tear. Host threads, copies and other processes
// access memory directly. Lines that a path keeps whole wait separately, overtake each other and
// all other stores, and arrive at once; a release of any scope beyond the CTA pushes them all; as
// of other stores, a thread may still read what was there before, until an acquire. Weak
// loads that no release has ordered (open_reads.h) and the proxy of each write (proxies.h) are also
// tracked. Single-threaded; if `weak` is false it is off (plain loads and stores, orders by the
// host's atomics). Cost when on: about 0.3 us an access.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "kernels/cuda/simt_hooks.h"
#include "tests/simt/machine/open_reads.h"
#include "tests/simt/machine/proxies.h"
#include "tests/simt/machine/random.h"

namespace rondo::simt {

inline constexpr unsigned kWhole = 8;  // bytes that never tear

// A lane's part of a line of 128 bytes; null `at`: none.
struct LinePart {
  std::byte* at = nullptr;
  std::array<std::byte, 16> value{};
};
inline constexpr unsigned kLineParts = 8;

// Waiting stores, found by address: a CTA may have tens of thousands. Each lies within a word.
class StoreBuffer {
 public:
  struct Entry {
    std::byte* at;
    std::uint8_t bytes;
    std::array<std::byte, kWhole> value;
  };
  // Applies stores pending for [at, at + bytes), within one word, to `value`, oldest first.
  void overlay(const std::byte* at, unsigned bytes, void* value) const;
  bool touches(const std::byte* at, unsigned bytes) const;
  std::size_t size() const { return size_; }
  void add(const Entry& entry);
  // Removes any store, or one that touches [at, at + bytes). Of overlapping stores the oldest goes
  // first, because stores to one address are seen in order.
  Entry take_any(Random& random);
  Entry take_touching(const std::byte* at, unsigned bytes);

  StoreBuffer* next = nullptr;       // next buffer for its stores; null: memory
  std::vector<std::uint32_t> reads;  // batches of OpenReads, open to all but the users
  int owner = -1;                    // CTA or device whose threads all see this buffer
  std::size_t listed = 0;            // index in the list of non-empty buffers, + 1

 private:
  struct Word {
    std::vector<Entry> entries;  // oldest first
    std::size_t place = 0;       // index in words_
  };
  using Words = std::unordered_map<std::uintptr_t, Word>;
  const std::vector<Entry>* word_of(const std::byte* at) const;
  Entry take(Words::iterator word, std::size_t entry);

  Words by_word_;
  std::vector<std::uintptr_t> words_;  // words that have stores
  std::size_t size_ = 0;
};

// Time at which each address was last seen.
using Seen = std::unordered_map<const std::byte*, std::uint64_t>;

// How far back in time a thread's loads may reach.
struct View {
  std::uint64_t device = 0;            // for changes made by other CTAs of its device
  std::uint64_t system = 0;            // for changes made by others
  Seen own;                            // since the newest acquire or barrier
  std::shared_ptr<const Seen> shared;  // seen earlier, by all threads of its barriers

  std::uint64_t seen_at(const std::byte* at) const;
  void see(const std::byte* at, std::uint64_t time) { note(own, at, time); }
  void forget_seen();
  static void note(Seen& seen, const std::byte* at, std::uint64_t time);
};

// Views of threads that meet at a barrier: afterwards each has seen what any of them had seen; so
// has a thread that observes the barrier's end without arriving. Cost: the views are merged once
// and then shared.
class BarrierViews {
 public:
  void add(const View& view);    // of a thread that arrives
  void close();                  // all have arrived
  void raise(View& view) const;  // of a thread that arrived
  void join(View& view) const;   // of a thread that did not arrive

 private:
  std::uint64_t device_ = 0, system_ = 0;
  Seen seen_;
  std::vector<std::shared_ptr<const Seen>> taken_;  // pointers to data merged into seen_
  std::shared_ptr<const Seen> shared_;
};

struct ThreadMemory {
  StoreBuffer stores;
  View view;
  std::uint32_t number = 0;  // thread number in Proxies
};

class WeakMemory {
 public:
  explicit WeakMemory(Random& random) : random_(random) {}

  void load(ThreadMemory& thread, const std::byte* at, unsigned bytes, void* to);
  void store(ThreadMemory& thread, std::byte* at, unsigned bytes, const void* from);
  void store_line(std::span<const LinePart> parts);  // expects kLineParts parts
  void release(ThreadMemory& thread, Scope scope);
  void acquire(ThreadMemory& thread, Scope scope);
  // Before an atomic operation on memory itself: completes this thread's pending stores to it.
  void settle(ThreadMemory& thread, const std::byte* at, unsigned bytes);

  // Moves one pending store on, if there is one.
  void drain_one();
  void drain_all(StoreBuffer& buffer);  // to memory
  bool empty() const { return pending_.empty() && lines_.empty(); }
  // A thread starts, ordered after everything before its launch; other kernels may still run.
  void begin(ThreadMemory& thread) {
    thread.view.device = thread.view.system = now_;
    thread.number = proxies_.begin();
  }
  void forget_past() {  // called when no thread is left that could read old values
    past_.clear();
    reads_.forget();
    proxies_.forget();
  }
  OpenReads& reads() { return reads_; }
  Proxies& proxies() { return proxies_; }

 private:
  struct Change {  // value of an address before a change
    std::uint64_t time;
    std::array<std::byte, kWhole> before;
    std::uint8_t bytes;
    bool within_device;  // seen by other CTAs of `device` (else: by all others)
    int device, cta;     // saw the change already
  };

  void read(const StoreBuffer& from, const std::byte* at, unsigned bytes, void* to) const;
  void remember(const StoreBuffer& seen_by, bool within_device, const StoreBuffer::Entry& entry);
  void move(StoreBuffer& buffer);
  void deliver(StoreBuffer& buffer, const StoreBuffer::Entry& moving);
  void push(StoreBuffer& buffer, const StoreBuffer* until);
  void list(StoreBuffer& buffer);
  void unlist(StoreBuffer& buffer);
  void deliver_line(std::size_t index);
  void deliver_lines();

  Random& random_;
  OpenReads reads_;
  Proxies proxies_;
  std::uint64_t now_ = 1;
  std::vector<StoreBuffer*> pending_;                    // non-empty buffers
  std::vector<std::array<LinePart, kLineParts>> lines_;  // lines not yet delivered
  const StoreBuffer nobody_;                             // of no device: all may miss a line
  std::unordered_map<const std::byte*, std::vector<Change>> past_;
};

}  // namespace rondo::simt
