// SendSide, ReceiveSide: the two directions of a TCP link: queues of messages, and how far each
// socket has got with them.
//
// Guarantees: bodies are read and written in place (but for what arrives within 4 KiB after a
// header); many small messages leave in one system call; a socket that the kernel finds full or
// empty does not hold up the others. No allocation.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "transport/net/net.h"
#include "transport/streams/stream.h"
#include "transport/tcp/message_header.h"

namespace rondo::tcp {

using Streams = std::span<const std::unique_ptr<net::Stream>>;

// Where a socket stands: a message, and how many bytes of its share of it (header included) moved.
struct Cursor {
  std::uint64_t message = 0;
  std::uint64_t offset = 0;
};

class SendSide {
 public:
  bool full() const { return pushed_ - sent_ == net::Link::kDepth; }
  std::uint64_t push(const CallRecord& record, std::span<const std::byte> body,
                     std::uint32_t tag = 0);
  std::uint64_t pushed() const { return pushed_; }
  std::uint64_t sent() const { return sent_; }  // messages that have left user space
  std::optional<net::IoOutcome> failure() const { return failure_; }

  // Called when the sockets are there. True if something moved.
  bool progress(Streams streams);

 private:
  struct Outgoing {
    MessageHeader header;
    const std::byte* body;
  };
  Outgoing& at(std::uint64_t message) { return queue_[message % net::Link::kDepth]; }
  Part share(std::uint64_t message, int index, int sockets);
  std::size_t gather(const Cursor& from, int index, int sockets, std::span<iovec> parts);
  bool advance(int index, net::Stream& stream, int sockets);

  std::array<Outgoing, net::Link::kDepth> queue_;
  std::vector<Cursor> cursors_;
  std::uint64_t pushed_ = 0;
  std::uint64_t sent_ = 0;
  std::optional<net::IoOutcome> failure_;
};

}  // namespace rondo::tcp
