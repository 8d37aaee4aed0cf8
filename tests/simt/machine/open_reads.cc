// SPDX-License-Identifier: Apache-2.0
#include "tests/simt/machine/open_reads.h"

#include "tests/simt/machine/weak_memory.h"

namespace rondo::simt {

OpenReads::Page* OpenReads::page_of(const std::byte* at, bool make) {
  const std::uintptr_t number = reinterpret_cast<std::uintptr_t>(at) / kPage;
  if (number == newest_number_) return newest_;
  const auto found = pages_.find(number);
  if (found == pages_.end() && !make) return nullptr;
  newest_ = found != pages_.end()
                ? found->second.get()
                : pages_.emplace(number, std::make_unique<Page>()).first->second.get();
  newest_number_ = number;
  return newest_;
}

std::uint8_t OpenReads::mask(const std::byte* at, unsigned bytes) {
  const unsigned first = reinterpret_cast<std::uintptr_t>(at) % kWord;
  return static_cast<std::uint8_t>(((1u << bytes) - 1) << first);
}

void OpenReads::note(StoreBuffer& buffer, const Batch& reader, const std::byte* at,
                     unsigned bytes) {
  if (buffer.reads.empty()) {
    buffer.reads.push_back(static_cast<std::uint32_t>(batches_.size()));
    batches_.push_back(reader);
    batches_.back().open_in = &buffer;
  }
  const std::uint32_t batch = buffer.reads.back();
  Word& word = (*page_of(at, true))[reinterpret_cast<std::uintptr_t>(at) % kPage / kWord];
  for (unsigned r = 0; r < kReaders; ++r)
    if (word.batch[r] == batch) {
      word.bytes[r] |= mask(at, bytes);
      return;
    }
  unsigned place = 0;  // of a completed load, if there is one
  while (place < kReaders && batches_[word.batch[place]].open_in != nullptr) ++place;
  if (place == kReaders) place = word.next++ % kReaders;
  word.batch[place] = batch;
  word.bytes[place] = mask(at, bytes);
}

void OpenReads::move(StoreBuffer& buffer) {
  for (const std::uint32_t batch : buffer.reads) {
    batches_[batch].open_in = buffer.next;
    if (buffer.next != nullptr) buffer.next->reads.push_back(batch);
  }
  buffer.reads.clear();
}

void OpenReads::close(StoreBuffer& buffer) {
  for (const std::uint32_t batch : buffer.reads) batches_[batch].open_in = nullptr;
  buffer.reads.clear();
}

const OpenReads::Batch* OpenReads::racing(const StoreBuffer& stores, const std::byte* at,
                                          unsigned bytes) {
  const Page* const page = page_of(at, false);
  if (page == nullptr) return nullptr;
  const Word& word = (*page)[reinterpret_cast<std::uintptr_t>(at) % kPage / kWord];
  for (unsigned r = 0; r < kReaders; ++r) {
    if ((word.bytes[r] & mask(at, bytes)) == 0) continue;
    const Batch& batch = batches_[word.batch[r]];
    const StoreBuffer* own = &stores;
    while (own != nullptr && own != batch.open_in) own = own->next;
    if (batch.open_in != nullptr && own == nullptr) return &batch;
  }
  return nullptr;
}

void OpenReads::forget() {
  batches_.resize(1);
  pages_.clear();
  newest_number_ = 0, newest_ = nullptr;
}

}  // namespace rondo::simt
