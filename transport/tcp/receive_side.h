// ReceiveSide: the incoming direction of a TCP link; see send_side.h.
//
// Where a header can follow, socket 0 reads ahead into a small stage: one system call receives
// several small messages. Never writes beyond the buffer of a receive. Malformed bytes end the
// link.
#pragma once

#include "transport/tcp/send_side.h"

namespace rondo::tcp {

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
