// SPDX-License-Identifier: Apache-2.0
#include "tests/simt/machine/weak_memory.h"

#include <algorithm>
#include <cstring>

#include "tests/simt/machine/raw_access.h"

namespace rondo::simt {
namespace {

constexpr std::size_t kBuffered = 64;  // max. pending stores of a thread
constexpr std::size_t kCrowd = 16;     // a buffer with more stores drains faster
constexpr std::size_t kChanges = 8;    // past values remembered per address

bool overlap(const std::byte* a, unsigned a_bytes, const std::byte* b, unsigned b_bytes) {
  return a < b + b_bytes && b < a + a_bytes;
}

// Number of the 8-byte word that contains the access.
std::uintptr_t word_number(const std::byte* at) {
  return reinterpret_cast<std::uintptr_t>(at) / kWhole;
}

}  // namespace

const std::vector<StoreBuffer::Entry>* StoreBuffer::word_of(const std::byte* at) const {
  const auto found = by_word_.find(word_number(at));
  return found == by_word_.end() ? nullptr : &found->second.entries;
}

void StoreBuffer::overlay(const std::byte* at, unsigned bytes, void* value) const {
  const std::vector<Entry>* const entries = word_of(at);
  if (entries == nullptr) return;
  auto* const to = static_cast<std::byte*>(value);
  for (const Entry& entry : *entries) {
    if (!overlap(at, bytes, entry.at, entry.bytes)) continue;
    const std::byte* const begin = std::max(at, static_cast<const std::byte*>(entry.at));
    const std::byte* const end =
        std::min(at + bytes, static_cast<const std::byte*>(entry.at) + entry.bytes);
    std::memcpy(to + (begin - at), entry.value.data() + (begin - entry.at),
                static_cast<std::size_t>(end - begin));
  }
}

bool StoreBuffer::touches(const std::byte* at, unsigned bytes) const {
  const std::vector<Entry>* const entries = word_of(at);
  return entries != nullptr && std::any_of(entries->begin(), entries->end(), [&](const Entry& e) {
           return overlap(at, bytes, e.at, e.bytes);
         });
}

void StoreBuffer::add(const Entry& entry) {
  Word& word = by_word_[word_number(entry.at)];
  if (word.entries.empty()) {
    word.place = words_.size();
    words_.push_back(word_number(entry.at));
  }
  word.entries.push_back(entry);
  ++size_;
}

StoreBuffer::Entry StoreBuffer::take(Words::iterator word, std::size_t entry) {
  std::vector<Entry>& entries = word->second.entries;
  for (std::size_t older = 0; older < entry; ++older)
    if (overlap(entries[entry].at, entries[entry].bytes, entries[older].at, entries[older].bytes))
      entry = older;
  const Entry taken = entries[entry];
  entries.erase(entries.begin() + static_cast<std::ptrdiff_t>(entry));
  --size_;
  if (!entries.empty()) return taken;
  by_word_.at(words_.back()).place = word->second.place;
  words_[word->second.place] = words_.back();
  words_.pop_back();
  by_word_.erase(word);
  return taken;
}

StoreBuffer::Entry StoreBuffer::take_any(Random& random) {
  const auto word = by_word_.find(words_[random.below(words_.size())]);
  return take(word, random.below(word->second.entries.size()));
}

StoreBuffer::Entry StoreBuffer::take_touching(const std::byte* at, unsigned bytes) {
  const auto word = by_word_.find(word_number(at));
  std::size_t entry = 0;
  while (!overlap(at, bytes, word->second.entries[entry].at, word->second.entries[entry].bytes))
    ++entry;
  return take(word, entry);
}

std::uint64_t View::seen_at(const std::byte* at) const {
  std::uint64_t newest = 0;
  if (const auto found = own.find(at); found != own.end()) newest = found->second;
  if (shared != nullptr)
    if (const auto found = shared->find(at); found != shared->end())
      newest = std::max(newest, found->second);
  return newest;
}

void View::note(Seen& seen, const std::byte* at, std::uint64_t time) {
  std::uint64_t& newest = seen[at];
  newest = std::max(newest, time);
}

void View::forget_seen() {
  own.clear();
  shared.reset();
}

void BarrierViews::add(const View& view) {
  device_ = std::max(device_, view.device);
  system_ = std::max(system_, view.system);
  for (const auto& [at, time] : view.own) View::note(seen_, at, time);
  if (view.shared == nullptr ||
      std::find(taken_.begin(), taken_.end(), view.shared) != taken_.end())
    return;
  for (const auto& [at, time] : *view.shared) View::note(seen_, at, time);
  taken_.push_back(view.shared);
}

// Changes before both horizons do not have to be remembered.
void BarrierViews::close() {
  std::erase_if(seen_, [&](const auto& one) { return one.second <= std::min(device_, system_); });
  taken_.clear();
  if (!seen_.empty()) shared_ = std::make_shared<const Seen>(std::move(seen_));
}

void BarrierViews::raise(View& view) const {
  view.device = std::max(view.device, device_);
  view.system = std::max(view.system, system_);
  view.own.clear();
  view.shared = shared_;
}

void BarrierViews::join(View& view) const {
  view.device = std::max(view.device, device_);
  view.system = std::max(view.system, system_);
  if (shared_ == nullptr || view.shared == shared_) return;
  if (view.shared != nullptr)
    for (const auto& [at, time] : *view.shared)
      if (time > std::min(view.device, view.system)) View::note(view.own, at, time);
  view.shared = shared_;
}

void WeakMemory::list(StoreBuffer& buffer) {
  if (buffer.listed != 0) return;
  pending_.push_back(&buffer);
  buffer.listed = pending_.size();
}

void WeakMemory::unlist(StoreBuffer& buffer) {
  pending_.back()->listed = buffer.listed;
  pending_[buffer.listed - 1] = pending_.back();
  pending_.pop_back();
  buffer.listed = 0;
}

// What the threads that share `from` see: memory, overlaid with the buffers on the way to it.
void WeakMemory::read(const StoreBuffer& from, const std::byte* at, unsigned bytes,
                      void* to) const {
  if (from.next != nullptr) {
    read(*from.next, at, bytes, to);
  } else {
    raw_load(to, at, bytes, Order::kRelaxed);
  }
  from.overlay(at, bytes, to);
}

void WeakMemory::load(ThreadMemory& thread, const std::byte* at, unsigned bytes, void* to) {
  read(thread.stores, at, bytes, to);
  const auto found = past_.find(at);
  if (found == past_.end()) return;
  if (random_.one_in(2)) return thread.view.see(at, now_);
  const StoreBuffer& cta = *thread.stores.next;
  if (thread.stores.touches(at, bytes) || cta.touches(at, bytes)) return;
  const std::uint64_t seen = thread.view.seen_at(at);
  const Change* chosen = nullptr;
  unsigned choices = 0;
  for (auto change = found->second.rbegin(); change != found->second.rend(); ++change) {
    if (change->bytes != bytes || change->time <= seen || change->cta == cta.owner) break;
    const bool same_device = change->device == cta.next->owner;
    // A change becomes visible in two steps; a thread can miss only the step that concerns it.
    if (change->within_device != same_device) continue;
    const std::uint64_t horizon = same_device ? thread.view.device : thread.view.system;
    if (change->time <= horizon) break;
    if (random_.one_in(++choices)) chosen = &*change;
  }
  thread.view.see(at, chosen == nullptr ? now_ : chosen->time - 1);
  if (chosen != nullptr) std::memcpy(to, chosen->before.data(), bytes);
}

void WeakMemory::store(ThreadMemory& thread, std::byte* at, unsigned bytes, const void* from) {
  StoreBuffer::Entry entry{at, static_cast<std::uint8_t>(bytes), {}};
  std::memcpy(entry.value.data(), from, bytes);
  thread.stores.add(entry);
  list(thread.stores);
  if (thread.stores.size() > kBuffered) move(thread.stores);
}

void WeakMemory::remember(const StoreBuffer& seen_by, bool within_device,
                          const StoreBuffer::Entry& entry) {
  Change change{++now_, {}, entry.bytes, within_device, -1, -1};
  if (within_device) {
    change.cta = seen_by.owner;
    change.device = seen_by.next->owner;
    read(*seen_by.next, entry.at, entry.bytes, change.before.data());
  } else {
    change.device = seen_by.owner;
    raw_load(change.before.data(), entry.at, entry.bytes, Order::kRelaxed);
  }
  std::vector<Change>& changes = past_[entry.at];
  if (changes.size() == kChanges) changes.erase(changes.begin());
  changes.push_back(change);
}

void WeakMemory::move(StoreBuffer& buffer) { deliver(buffer, buffer.take_any(random_)); }

// Moves the entry to the buffer after `buffer`, from which it was taken.
void WeakMemory::deliver(StoreBuffer& buffer, const StoreBuffer::Entry& moving) {
  const bool to_memory = buffer.next == nullptr;
  const bool to_device = !to_memory && buffer.next->next == nullptr;
  if (to_memory || to_device) remember(buffer, to_device, moving);
  if (buffer.size() == 0) unlist(buffer);
  if (to_memory) {
    raw_store(moving.at, moving.value.data(), moving.bytes, Order::kRelaxed);
  } else {
    buffer.next->add(moving);
    list(*buffer.next);
  }
}

void WeakMemory::push(StoreBuffer& buffer, const StoreBuffer* until) {
  for (StoreBuffer* at = &buffer; at != until; at = at->next) {
    while (at->size() > 0) move(*at);
    reads_.move(*at);
  }
}

void WeakMemory::store_line(std::span<const LinePart> parts) {
  std::array<LinePart, kLineParts> line;
  std::copy(parts.begin(), parts.end(), line.begin());
  lines_.push_back(line);
  if (lines_.size() > kBuffered) deliver_line(random_.below(lines_.size()));
}

void WeakMemory::deliver_line(std::size_t index) {
  const std::array<LinePart, kLineParts> line = lines_[index];
  lines_.erase(lines_.begin() + static_cast<std::ptrdiff_t>(index));
  for (const LinePart& part : line)
    for (unsigned done = 0; part.at != nullptr && done < sizeof(part.value); done += kWhole) {
      StoreBuffer::Entry word{part.at + done, kWhole, {}};
      std::memcpy(word.value.data(), part.value.data() + done, kWhole);
      remember(nobody_, false, word);
      raw_store(word.at, word.value.data(), kWhole, Order::kRelaxed);
    }
}

void WeakMemory::deliver_lines() {
  while (!lines_.empty()) deliver_line(random_.below(lines_.size()));
}

void WeakMemory::release(ThreadMemory& thread, Scope scope) {
  StoreBuffer* const cta = thread.stores.next;
  if (scope != Scope::kCta) deliver_lines();
  push(thread.stores, scope == Scope::kCta ? cta : scope == Scope::kDevice ? cta->next : nullptr);
}

void WeakMemory::acquire(ThreadMemory& thread, Scope scope) {
  if (scope == Scope::kCta) return;
  thread.view.device = now_;
  if (scope == Scope::kDevice) return;
  thread.view.system = now_;
  thread.view.forget_seen();
}

void WeakMemory::settle(ThreadMemory& thread, const std::byte* at, unsigned bytes) {
  for (StoreBuffer* buffer = &thread.stores; buffer != nullptr; buffer = buffer->next)
    while (buffer->touches(at, bytes)) deliver(*buffer, buffer->take_touching(at, bytes));
}

void WeakMemory::drain_one() {
  if (!lines_.empty() && (pending_.empty() || random_.one_in(2)))
    return deliver_line(random_.below(lines_.size()));
  if (pending_.empty()) return;
  StoreBuffer& buffer = *pending_[random_.below(pending_.size())];
  // Long buffers drain faster; otherwise threads that poll would delay all other threads' stores.
  for (std::size_t times = 1 + buffer.size() / kCrowd; times > 0; --times)
    if (buffer.size() > 0) move(buffer);
}

void WeakMemory::drain_all(StoreBuffer& buffer) {
  deliver_lines();
  push(buffer, nullptr);
}

}  // namespace rondo::simt
