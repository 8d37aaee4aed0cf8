// OpenReads: loads of GPU threads that nothing orders ahead of what comes after them.
//
// A weak load may happen as late as its thread's next release or fence; only then does a credit
// that is told mean that the slot has been read. So a load stays open: to all but its own thread
// until that releases, to other CTAs until somebody of its CTA releases to the device, to other
// devices until one releases to the system. Loads move along the store buffers as stores do. A
// store of somebody to whom a load of the same bytes is open is a race, whatever was read. Strong
// loads are not followed: they and strong stores do not race. Data that arrive with a flag (lines
// of LL and LL128) depend on what their sender has loaded, so one that stores a pair has no load
// open. Misses: of more than kReaders loads of a word the oldest are forgotten. Cost: 20 ns a weak
// load or store.
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
  // Loads that moved together: the first of them speaks for all.
  struct Batch {
    const StoreBuffer* open_in = nullptr;  // seen to have happened by its users; null: by all
    int device = 0;
    unsigned cta = 0, thread = 0;
  };

  // A load of [at, at + bytes), within a word, by a user of `buffer`.
  void note(StoreBuffer& buffer, const Batch& reader, const std::byte* at, unsigned bytes);
  // All that is open in `buffer` has now happened for the users of the one behind it.
  void move(StoreBuffer& buffer);
  // What is open in `buffer` has happened for everybody.
  void close(StoreBuffer& buffer);
  // A load that a store by the thread of `stores` would race with, or null.
  const Batch* racing(const StoreBuffer& stores, const std::byte* at, unsigned bytes);
  void forget();  // when no thread is left

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
