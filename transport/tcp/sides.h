// SPDX-License-Identifier: Apache-2.0
// SendSide, ReceiveSide: the two directions of a TCP link: headers, queues, and socket progress.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/types.h"
#include "transport/net/net.h"
#include "transport/streams/stream.h"

namespace rondo::tcp {

// The header of a message on a TCP link, and the division of a message over the link's sockets.
//
// Socket 0 carries every header (32 bytes, little-endian like all hosts of a communicator) and the
// first part of every body. The other sockets carry their parts of large bodies without headers:
// the size determines the division. Each socket keeps the order of messages.
struct MessageHeader {
  std::uint32_t magic = kMagic;
  std::uint32_t bytes = 0;   // size of the body
  std::uint32_t number = 0;  // low 32 bits of the message number
  std::uint32_t tag = 0;
  CallRecord record;

  static constexpr std::uint32_t kMagic = 0x6c736f52;
};
static_assert(sizeof(MessageHeader) == 32);
inline constexpr std::size_t kHeaderBytes = sizeof(MessageHeader);

// Nullopt unless the bytes are the header of message `number`.
std::optional<MessageHeader> parse_header(std::span<const std::byte, kHeaderBytes> bytes,
                                          std::uint64_t number);

inline constexpr std::uint64_t kStripedFrom = 64 << 10;

struct Part {
  std::uint64_t begin;
  std::uint64_t bytes;
};
// The part of a body of `bytes` that socket `index` of `sockets` carries.
Part part_of_body(std::uint64_t bytes, int index, int sockets);

// SendSide, ReceiveSide: the two directions of a TCP link: message queues and socket progress.
//
// Guarantees: bodies are sent and received in place (except bytes that arrive within 4 KiB after a
// header). One system call sends many small messages. A socket that is full or empty does not block
// the others. No allocation.
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

// ReceiveSide: the incoming direction of a TCP link.
//
// Where a header can follow, socket 0 reads ahead into a small stage: one system call receives
// several small messages. Never writes beyond the buffer of a receive. Malformed bytes end the
// link.
class ReceiveSide {
 public:
  bool full() const { return posted_ - received_ == net::Link::kDepth; }
  std::uint64_t push(CallRecord& record, std::span<std::byte> room);
  std::uint64_t received() const { return received_; }  // complete messages
  std::uint64_t bytes_of(std::uint64_t message) const {
    return queue_[message % net::Link::kDepth].bytes;
  }
  std::uint32_t tag_of(std::uint64_t message) const {
    return queue_[message % net::Link::kDepth].tag;
  }
  // Why no more messages will arrive: the peer closed, the connection broke, or malformed bytes.
  const std::optional<std::string>& failure() const { return failure_; }

  // The failure is a close by the peer, after complete messages.
  bool is_closed() const { return failure_ && failure_ == end_; }

  bool progress(Streams streams);

 private:
  struct Incoming {
    CallRecord* record;
    std::byte* room;
    std::uint64_t capacity;
    std::uint64_t bytes;  // valid once its header is known
    std::uint32_t tag;
  };
  Incoming& at(std::uint64_t message) { return queue_[message % net::Link::kDepth]; }
  std::span<std::byte> rest_of_part(const Cursor& cursor, int index, int sockets);
  bool advance_first(net::Stream& stream, int sockets);
  bool advance_other(int index, net::Stream& stream, int sockets);
  void take_header();
  bool take_staged(std::span<std::byte> into);
  void fail_at(const net::IoOutcome& outcome, bool in_message);

  static constexpr std::size_t kStageBytes = 4096;

  std::array<Incoming, net::Link::kDepth> queue_;
  std::vector<Cursor> cursors_;
  std::uint64_t posted_ = 0;
  std::uint64_t headers_ = 0;  // messages whose header is known
  std::uint64_t received_ = 0;
  std::optional<std::string> end_;  // of socket 0; other sockets may still have data
  std::optional<std::string> failure_;
  std::size_t stage_begin_ = 0;
  std::size_t stage_end_ = 0;
  alignas(64) std::array<std::byte, kStageBytes> stage_;
};

}  // namespace rondo::tcp
