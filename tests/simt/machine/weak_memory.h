// WeakMemory: the order in which stores of GPU threads become visible, as badly as PTX allows.
//
// A store waits in its thread's buffer, from there goes to the buffer of its CTA (visible to the
// CTA), to that of its device, and last to memory. Stores to different addresses overtake each
// other everywhere; a release or fence of some scope pushes all that its thread has stored or seen
// in its CTA (barriers hand stores on) up to that scope first. Loads may be answered with what an
// address held at any time since the thread's newest acquire of the scope in which the change was
// made, never going back behind what the thread has seen or written there. Accesses are whole up to
// 8 bytes, so lines of 16 and 128 bytes are torn. Host threads, copies and other processes act on
// memory itself. Lines that a path keeps whole wait apart, overtake each other and all else, and
// arrive at once; a release of any scope beyond the CTA pushes them all. Weak loads that no release
// has ordered are followed, too (open_reads.h), and by which way bytes were written (proxies.h).
// One thread at a time; off (plain loads and stores, orders by the host's atomics) when `weak` is
// false. Cost when on: about 0.3 us an access.
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

inline constexpr unsigned kWhole = 8;  // bytes that are never torn

// A lane's part of a line of 128 bytes; no place: none.
struct LinePart {
  std::byte* at = nullptr;
  std::array<std::byte, 16> value{};
};
inline constexpr unsigned kLineParts = 8;

// Stores that wait, found by their place: a CTA's may be ten thousands. Each lies within a word.
class StoreBuffer {
 public:
  struct Entry {
    std::byte* at;
    std::uint8_t bytes;
    std::array<std::byte, kWhole> value;
  };
  // Lays what is pending for [at, at + bytes), of one word, over `value`, oldest first.
  void overlay(const std::byte* at, unsigned bytes, void* value) const;
  bool touches(const std::byte* at, unsigned bytes) const;
  std::size_t size() const { return size_; }
  void add(const Entry& entry);
  // Some store, and one that touches [at, at + bytes): the oldest among those that overlap it, for
  // an address sees its stores in order.
  Entry take_any(Random& random);
  Entry take_touching(const std::byte* at, unsigned bytes);

  StoreBuffer* next = nullptr;       // where stores go from here; null: memory
  std::vector<std::uint32_t> reads;  // batches of OpenReads, open to all but the users
  int owner = -1;                    // CTA or device whose threads all see this buffer
  std::size_t listed = 0;  // place in WeakMemory's list of buffers that are not empty, + 1

 private:
  struct Word {
    std::vector<Entry> entries;  // oldest first
    std::size_t place = 0;       // in words_
  };
  using Words = std::unordered_map<std::uintptr_t, Word>;
  const std::vector<Entry>* word_of(const std::byte* at) const;
  Entry take(Words::iterator word, std::size_t entry);

  Words by_word_;
  std::vector<std::uintptr_t> words_;  // those that have stores
  std::size_t size_ = 0;
};

// What was seen at an address, and when.
using Seen = std::unordered_map<const std::byte*, std::uint64_t>;

// How far back in time a thread's loads may reach.
struct View {
  std::uint64_t device = 0;            // for changes made by other CTAs of its device
  std::uint64_t system = 0;            // for changes made by others
  Seen own;                            // since the newest acquire or meeting
  std::shared_ptr<const Seen> shared;  // by all that it met, before

  std::uint64_t seen_at(const std::byte* at) const;
  void see(const std::byte* at, std::uint64_t time) { note(own, at, time); }
  void forget_seen();
  static void note(Seen& seen, const std::byte* at, std::uint64_t time);
};

// Threads that meet at a barrier: afterwards each has seen what any of them had, and so have others
// that hear of it. Cost: what was seen is put together once and then shared.
class BarrierViews {
 public:
  void add(const View& view);    // of one that comes
  void close();                  // all have come
  void raise(View& view) const;  // of one that came
  void join(View& view) const;   // of one that did not

 private:
  std::uint64_t device_ = 0, system_ = 0;
  Seen seen_;
  std::vector<std::shared_ptr<const Seen>> taken_;  // into seen_
  std::shared_ptr<const Seen> shared_;
};

struct ThreadMemory {
  StoreBuffer stores;
  View view;
  std::uint32_t number = 0;  // among those of Proxies
};

class WeakMemory {
 public:
  explicit WeakMemory(Random& random) : random_(random) {}

  void load(ThreadMemory& thread, const std::byte* at, unsigned bytes, void* to);
  void store(ThreadMemory& thread, std::byte* at, unsigned bytes, const void* from);
  void store_line(std::span<const LinePart> parts);  // kLineParts of them
  void release(ThreadMemory& thread, Scope scope);
  void acquire(ThreadMemory& thread, Scope scope);
  // Before an atomic operation on memory itself: nothing of this thread's view of it is pending.
  void settle(ThreadMemory& thread, const std::byte* at, unsigned bytes);

  // One pending store, if there is one, moves on.
  void drain_one();
  void drain_all(StoreBuffer& buffer);  // to memory
  bool empty() const { return pending_.empty() && lines_.empty(); }
  // A thread starts, after all that was done before its launch: other kernels may still run.
  void begin(ThreadMemory& thread) {
    thread.view.device = thread.view.system = now_;
    thread.number = proxies_.begin(thread.stores.next->owner);
  }
  void forget_past() {  // when no thread is left that could look back
    past_.clear();
    reads_.forget();
    proxies_.forget();
  }
  OpenReads& reads() { return reads_; }
  Proxies& proxies() { return proxies_; }

 private:
  struct Change {  // what an address held before it changed
    std::uint64_t time;
    std::array<std::byte, kWhole> before;
    std::uint8_t bytes;
    bool within_device;  // seen by the other CTAs of `device` (else: by everybody else)
    int device, cta;     // who knew already
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
  std::vector<StoreBuffer*> pending_;                    // buffers that are not empty
  std::vector<std::array<LinePart, kLineParts>> lines_;  // on their way
  std::unordered_map<const std::byte*, std::vector<Change>> past_;
};

}  // namespace rondo::simt
