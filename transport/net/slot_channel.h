// SPDX-License-Identifier: Apache-2.0
// SlotSender, SlotReceiver: the two ends of a Connection between ranks on different hosts.
//
// Executors fill and empty the slots of a Connection as if the peer shared the memory; progress()
// moves the slots over a net::Link. Both ends keep their words in the memory of their own process.
// The sender advances `head` when a slot has left user space; the receiver advances `tail` when a
// slot has arrived. No credit messages: a receiver posts exactly its free slots to the link, so
// the network's own flow control stops the sender [saves one message per slot].
// Guarantees: slots arrive in order, with their record and their bytes; never more slots than the
// receiver has free. One thread at a time. Cost: progress() without work is two loads. Nothing is
// allocated after make(); slot memory is committed at first touch.
//
//   RONDO_TRY(SlotSender sender, SlotSender::make(peer, {128 << 10, 8}));
//   SendEnd<> end(sender.connection());  ...fill, push...
//   sender.progress(link);  link.progress();  sender.progress(link);
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "transport/connection.h"
#include "transport/net/net.h"

namespace rondo::net {

struct SlotShape {
  std::uint64_t bytes = 128 << 10;
  std::uint64_t count = 8;
};

// A Connection and the memory that it points to: owned, or the caller's.
class SlotMemory {
 public:
  static Result<std::unique_ptr<SlotMemory>> make(int peer, const SlotShape& shape);
  // Uses the slots and words of `given`, which must outlive this. Allocates the records, and `used`
  // if it is null.
  static std::unique_ptr<SlotMemory> over(const Connection& given);
  ~SlotMemory();
  SlotMemory(const SlotMemory&) = delete;
  SlotMemory& operator=(const SlotMemory&) = delete;

  Connection& connection() { return connection_; }
  const Connection& connection() const { return connection_; }
  std::span<std::byte> buffer() const {
    return {connection_.buffer, connection_.slot_bytes * connection_.slot_count};
  }
  std::span<std::byte> slot(std::uint64_t number) const {
    return {connection_.buffer + number % connection_.slot_count * connection_.slot_bytes,
            connection_.slot_bytes};
  }

 private:
  SlotMemory() = default;
  struct alignas(kLineBytes) Word {
    std::uint64_t value = 0;
  };
  Connection connection_{};
  bool owned_ = false;
  Word tail_;
  Word head_;
  std::vector<CallRecord> records_;
  std::vector<std::uint64_t> used_;
};

class SlotSender {
 public:
  static Result<SlotSender> make(int peer, const SlotShape& shape);
  // The code that fills a slot stores its number of bytes in connection.used.
  static SlotSender over(const Connection& given) { return SlotSender(SlotMemory::over(given)); }

  Connection& connection() { return memory_->connection(); }
  std::span<std::byte> memory() const { return memory_->buffer(); }
  // Posts filled slots to the link and frees sent ones. True if any moved.
  bool progress(Link& link, MemoryKey key = 0);
  // No filled slot is left in user space.
  bool flushed() const;
  std::uint64_t bytes() const { return bytes_; }  // total posted to the link

 private:
  explicit SlotSender(std::unique_ptr<SlotMemory> memory) : memory_(std::move(memory)) {
    requests_.resize(memory_->connection().slot_count);
  }
  std::unique_ptr<SlotMemory> memory_;
  std::vector<Request> requests_;  // by slot
  std::uint64_t posted_ = 0, bytes_ = 0;
};

class SlotReceiver {
 public:
  static Result<SlotReceiver> make(int peer, const SlotShape& shape);
  static SlotReceiver over(const Connection& given) {
    return SlotReceiver(SlotMemory::over(given));
  }

  Connection& connection() { return memory_->connection(); }
  std::span<std::byte> memory() const { return memory_->buffer(); }
  // Posts free slots to the link and publishes arrived ones. True if any arrived.
  bool progress(Link& link, MemoryKey key = 0);
  std::uint64_t bytes() const { return bytes_; }  // total that arrived

 private:
  explicit SlotReceiver(std::unique_ptr<SlotMemory> memory) : memory_(std::move(memory)) {
    requests_.resize(memory_->connection().slot_count);
  }
  std::unique_ptr<SlotMemory> memory_;
  std::vector<Request> requests_;  // by slot
  std::uint64_t posted_ = 0, bytes_ = 0;
};

}  // namespace rondo::net
