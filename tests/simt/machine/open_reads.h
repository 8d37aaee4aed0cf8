// SPDX-License-Identifier: Apache-2.0
// OpenReads: weak loads of GPU threads that no release or fence has ordered yet.
//
// A weak load may happen as late as its thread's next release or fence; only after that does a
// published credit mean that the slot has been read. So a load stays open: to all other threads
// until its thread releases, to other CTAs until a thread of its CTA releases at device scope, to
// other devices until one releases at system scope. Loads move along the store buffers as stores
// do. A store to bytes with a load that is still open to the storing thread is a race, whatever
// value was read. Strong loads are not tracked: they do not race with strong stores. Data that
// arrive with a flag (lines of LL and LL128) depend on what their sender has loaded, so a thread
// that stores a pair has no open load. Misses: beyond kReaders loads of a word, the oldest are
// forgotten. Cost: 20 ns a weak load or store.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

namespace rondo::simt {

class StoreBuffer;

class OpenReads {
 public:
  // Loads that moved together; the first one represents all.
  struct Batch {
    const StoreBuffer* open_in = nullptr;  // its users know that it happened; null: all do
    int device = 0;
    unsigned cta = 0, thread = 0;
  };

  // Records a load of [at, at + bytes), within a word, by a user of `buffer`.
  void note(StoreBuffer& buffer, const Batch& reader, const std::byte* at, unsigned bytes);
  // Loads open in `buffer` have now happened for the users of the next buffer.
  void move(StoreBuffer& buffer);
  // Loads open in `buffer` have now happened for all threads.
  void close(StoreBuffer& buffer);
  // A load that would race with a store by the thread of `stores`, or null.
  const Batch* racing(const StoreBuffer& stores, const std::byte* at, unsigned bytes);
  void forget();  // called when no thread is left

 private:
  static constexpr unsigned kReaders = 3;
  static constexpr std::size_t kPage = 4096, kWord = 8;
  struct Word {
    std::array<std::uint32_t, kReaders> batch{};  // 0: none
    std::array<std::uint8_t, kReaders> bytes{};   // bit b: byte b
    std::uint8_t next = 0;
  };
  using Page = std::array<Word, kPage / kWord>;

  Page* page_of(const std::byte* at, bool make);
  static std::uint8_t mask(const std::byte* at, unsigned bytes);

  std::vector<Batch> batches_{1};
  std::unordered_map<std::uintptr_t, std::unique_ptr<Page>> pages_;
  std::uintptr_t newest_number_ = 0;
  Page* newest_ = nullptr;
};

}  // namespace rondo::simt
