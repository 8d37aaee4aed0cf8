// SendSide, ReceiveSide: the two directions of a TCP link: message queues and socket progress.
//
// Guarantees: bodies are sent and received in place (except bytes that arrive within 4 KiB after a
// header). One system call sends many small messages. A socket that is full or empty does not block
// the others. No allocation.
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

// Progress of a socket: its current message, and the moved bytes of its share (with the header).
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

  // Call it only once the sockets are open. True if something moved.
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
