#include "tests/simt/machine/weak_memory.h"

#include <algorithm>
#include <cstring>

#include "tests/simt/machine/raw_access.h"

namespace rondo::simt {
namespace {

constexpr std::size_t kBuffered = 64;  // stores a thread may have pending
constexpr std::size_t kCrowd = 16;     // stores that a buffer gets rid of one by one
constexpr std::size_t kChanges = 8;    // past values remembered of an address

bool overlap(const std::byte* a, unsigned a_bytes, const std::byte* b, unsigned b_bytes) {
  return a < b + b_bytes && b < a + a_bytes;
}

}  // namespace

void StoreBuffer::overlay(const std::byte* at, unsigned bytes, void* value) const {
  auto* const to = static_cast<std::byte*>(value);
  for (const Entry& entry : entries) {
    if (!overlap(at, bytes, entry.at, entry.bytes)) continue;
    const std::byte* const begin = std::max(at, static_cast<const std::byte*>(entry.at));
    const std::byte* const end =
        std::min(at + bytes, static_cast<const std::byte*>(entry.at) + entry.bytes);
    std::memcpy(to + (begin - at), entry.value.data() + (begin - entry.at),
                static_cast<std::size_t>(end - begin));
  }
}

bool StoreBuffer::touches(const std::byte* at, unsigned bytes) const {
  return std::any_of(entries.begin(), entries.end(),
                     [&](const Entry& entry) { return overlap(at, bytes, entry.at, entry.bytes); });
}

std::uint64_t View::seen_at(const std::byte* at) const {
  const auto found = seen.find(at);
  return found == seen.end() ? 0 : found->second;
}

void View::see(const std::byte* at, std::uint64_t time) {
  std::uint64_t& newest = seen[at];
  newest = std::max(newest, time);
}

void View::raise(const View& other) {
  device = std::max(device, other.device);
  system = std::max(system, other.system);
  for (const auto& [at, time] : other.seen) see(at, time);
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

// What the threads that share `from` see: memory below the buffers on the way to it.
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
    // A change travels in two steps; a thread can miss only the one that concerns it.
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
  thread.stores.entries.push_back(entry);
  list(thread.stores);
  if (thread.stores.entries.size() > kBuffered)
    move(thread.stores, random_.below(thread.stores.entries.size()));
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

// The oldest entry that overlaps the given one goes first: an address sees its stores in order.
void WeakMemory::move(StoreBuffer& buffer, std::size_t entry) {
  for (std::size_t older = 0; older < entry; ++older) {
    const StoreBuffer::Entry& chosen = buffer.entries[entry];
    if (overlap(chosen.at, chosen.bytes, buffer.entries[older].at, buffer.entries[older].bytes))
      entry = older;
  }
  const StoreBuffer::Entry moving = buffer.entries[entry];
  const bool to_memory = buffer.next == nullptr;
  const bool to_device = !to_memory && buffer.next->next == nullptr;
  if (to_memory || to_device) remember(buffer, to_device, moving);
  buffer.entries.erase(buffer.entries.begin() + static_cast<std::ptrdiff_t>(entry));
  if (buffer.entries.empty()) unlist(buffer);
  if (to_memory) {
    raw_store(moving.at, moving.value.data(), moving.bytes, Order::kRelaxed);
  } else {
    buffer.next->entries.push_back(moving);
    list(*buffer.next);
  }
}

void WeakMemory::push(StoreBuffer& buffer, const StoreBuffer* until) {
  for (StoreBuffer* at = &buffer; at != until; at = at->next)
    while (!at->entries.empty()) move(*at, random_.below(at->entries.size()));
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
    for (unsigned done = 0; part.at != nullptr && done < sizeof(part.value); done += kWhole)
      raw_store(part.at + done, part.value.data() + done, kWhole, Order::kRelaxed);
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
  thread.view.seen.clear();
}

void WeakMemory::settle(ThreadMemory& thread, const std::byte* at, unsigned bytes) {
  for (StoreBuffer* buffer = &thread.stores; buffer != nullptr; buffer = buffer->next)
    for (std::size_t i = 0; i < buffer->entries.size();) {
      const StoreBuffer::Entry& entry = buffer->entries[i];
      if (overlap(at, bytes, entry.at, entry.bytes)) {
        move(*buffer, i);
      } else {
        ++i;
      }
    }
}

void WeakMemory::drain_one() {
  if (!lines_.empty() && (pending_.empty() || random_.one_in(2)))
    return deliver_line(random_.below(lines_.size()));
  if (pending_.empty()) return;
  StoreBuffer& buffer = *pending_[random_.below(pending_.size())];
  // Long ones move faster, or threads that wait and say so would keep all others' stores back.
  for (std::size_t times = 1 + buffer.entries.size() / kCrowd; times > 0; --times)
    if (!buffer.entries.empty()) move(buffer, random_.below(buffer.entries.size()));
}

void WeakMemory::drain_all(StoreBuffer& buffer) {
  deliver_lines();
  push(buffer, nullptr);
}

}  // namespace rondo::simt
