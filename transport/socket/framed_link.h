// FramedLink: a connected socket that sends and receives frames without ever blocking.
//
// Guarantees: no SIGPIPE; frames that arrived before the peer closed are still given out; the limit
// on incoming payloads holds before memory is spent. Cost: one system call for a small frame, one
// for every 16 KiB received.
//
//   RONDO_CHECK_OK(link.send(type, round, payload));    // queues what the kernel does not take
//   poll(link.entry()); RONDO_CHECK_OK(link.flush());
//   RONDO_TRY(std::optional<Frame> frame, link.receive());
//   RONDO_TRY(Frame reply, link.await(patience, "waiting for the table"));   // or simply block
#pragma once

#include <poll.h>

#include <optional>
#include <string_view>

#include "transport/socket/frame.h"
#include "transport/socket/patience.h"
#include "transport/socket/socket.h"

namespace rondo::net {

class FramedLink {
 public:
  FramedLink() = default;
  explicit FramedLink(Socket socket, std::size_t limit = kMostPayload)
      : socket_(std::move(socket)), parser_(limit) {}

  void set_limit(std::size_t limit) { parser_.set_limit(limit); }
  bool valid() const { return socket_.valid(); }
  void close() { socket_.reset(); }

  Done send(std::uint16_t type, std::uint32_t round, ByteSpan payload);
  Done flush();
  bool unsent() const { return sent_ < outbox_.size(); }

  // The next frame if one has arrived. kRemoteError when the peer closed (closed() is true then)
  // or sent what is no frame.
  Result<std::optional<Frame>> receive();
  bool closed() const { return closed_; }

  // For poll(2): readable always, writable while bytes are unsent.
  pollfd entry() const;

  // Blocking forms. flush_all sends everything that is queued.
  Done flush_all(const Patience& patience, std::string_view what);
  Result<Frame> await(const Patience& patience, std::string_view what);

 private:
  Socket socket_;
  FrameParser parser_{kMostPayload};
  Bytes outbox_;
  std::size_t sent_ = 0;
  bool closed_ = false;
};

}  // namespace rondo::net
