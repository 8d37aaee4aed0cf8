// SPDX-License-Identifier: Apache-2.0
#include "transport/net/slot_channel.h"

#include <sys/mman.h>

#include <cassert>
#include <cerrno>

#include "base/atomics.h"

namespace rondo::net {
namespace {

using A = HostAtomics;

std::size_t mapped_bytes(const Connection& c) { return c.slot_bytes * c.slot_count; }

}  // namespace

Result<std::unique_ptr<SlotMemory>> SlotMemory::make(int peer, const SlotShape& shape) {
  assert(peer >= 0);
  if (shape.bytes == 0 || shape.count == 0)
    return fail(StatusCode::kInvalidArgument, "a channel of {} slots of {} bytes holds nothing",
                shape.count, shape.bytes);
  std::unique_ptr<SlotMemory> made(new SlotMemory);
  Connection& c = made->connection_;
  c.slot_bytes = shape.bytes;
  c.slot_count = shape.count;
  void* memory = ::mmap(nullptr, mapped_bytes(c), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED)
    return fail_errno(errno, "no memory for {} slots of {} bytes to rank {} (NCCL_BUFFSIZE)",
                      shape.count, shape.bytes, peer);
  c.buffer = static_cast<std::byte*>(memory);
  made->owned_ = true;
  made->records_.resize(shape.count);
  made->used_.resize(shape.count);
  c.tail = &made->tail_.value;
  c.head = &made->head_.value;
  c.records = made->records_.data();
  c.used = made->used_.data();
  c.peer = peer;
  return made;
}

std::unique_ptr<SlotMemory> SlotMemory::over(const Connection& given) {
  assert(given.buffer != nullptr && given.slot_count > 0 && given.slot_bytes > 0);
  std::unique_ptr<SlotMemory> made(new SlotMemory);
  made->connection_ = given;
  made->records_.resize(given.slot_count);
  made->connection_.records = made->records_.data();
  if (given.used != nullptr) return made;
  made->used_.resize(given.slot_count);
  made->connection_.used = made->used_.data();
  return made;
}

SlotMemory::~SlotMemory() {
  if (owned_) ::munmap(connection_.buffer, mapped_bytes(connection_));
}

Result<SlotSender> SlotSender::make(int peer, const SlotShape& shape) {
  RONDO_TRY(auto memory, SlotMemory::make(peer, shape));
  return SlotSender(std::move(memory));
}

bool SlotSender::progress(Link& link, MemoryKey key) {
  Connection& c = connection();
  bool moved = false;
  for (const std::uint64_t tail = A::load_acquire(*c.tail); posted_ < tail; ++posted_) {
    assert(tail - A::load_relaxed(*c.head) <= c.slot_count && "a filled slot was filled again");
    const std::uint64_t slot = posted_ % c.slot_count;
    const std::uint64_t used = c.used[slot];
    assert((used & 0xffffffff) <= c.slot_bytes);
    const auto request =
        link.isend(c.records[slot], memory_->slot(posted_).first(used & 0xffffffff), key,
                   static_cast<std::uint32_t>(used >> 32));
    if (!request) break;
    requests_[slot] = *request;
    bytes_ += used & 0xffffffff;
    moved = true;
  }
  std::uint64_t head = A::load_relaxed(*c.head);
  const std::uint64_t before = head;
  assert(head <= posted_ && posted_ - head <= c.slot_count);
  while (head < posted_ && link.test(requests_[head % c.slot_count]).done) ++head;
  if (head == before) return moved;
  A::store_release(*c.head, head);
  return true;
}

bool SlotSender::flushed() const {
  const Connection& c = memory_->connection();
  return A::load_acquire(*c.tail) == A::load_relaxed(*c.head);
}

Result<SlotReceiver> SlotReceiver::make(int peer, const SlotShape& shape) {
  RONDO_TRY(auto memory, SlotMemory::make(peer, shape));
  return SlotReceiver(std::move(memory));
}

bool SlotReceiver::progress(Link& link, MemoryKey key) {
  Connection& c = connection();
  std::uint64_t tail = A::load_relaxed(*c.tail);
  const std::uint64_t before = tail;
  assert(tail <= posted_ && posted_ - tail <= c.slot_count);
  for (; tail < posted_; ++tail) {
    const std::uint64_t slot = tail % c.slot_count;
    const Completion arrived = link.test(requests_[slot]);
    if (!arrived.done) break;
    assert(arrived.bytes <= c.slot_bytes);
    bytes_ += arrived.bytes;
    c.used[slot] = arrived.bytes | static_cast<std::uint64_t>(arrived.tag) << 32;
  }
  if (tail != before) A::store_release(*c.tail, tail);
  for (const std::uint64_t head = A::load_acquire(*c.head); posted_ - head < c.slot_count;
       ++posted_) {
    assert(head <= tail && "a slot was emptied before it was full");
    const std::uint64_t slot = posted_ % c.slot_count;
    const auto request = link.irecv(c.records[slot], memory_->slot(posted_), key);
    if (!request) break;
    requests_[slot] = *request;
  }
  return tail != before;
}

}  // namespace rondo::net
