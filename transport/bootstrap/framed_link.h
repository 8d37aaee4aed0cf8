// FramedLink: a connection after its handshake: sends and receives frames, as records under the
// session's key, without ever blocking.
//
// Guarantees: no SIGPIPE; frames that arrived before the peer closed are still given out; bytes
// that the peer did not send in just this order end the link with an error. Cost: one system call
// for a small frame, one for every 16 KiB received.
//
//   RONDO_CHECK_OK(link.send(type, round, payload));    // queues what the kernel does not take
//   poll(link.entry()); RONDO_CHECK_OK(link.flush());
//   RONDO_TRY(std::optional<Frame> frame, link.receive());
//   RONDO_TRY(Frame reply, link.await(deadline, "waiting for the table"));   // or simply block
#pragma once

#include <poll.h>

#include <cstdint>
#include <optional>
#include <string_view>

#include "transport/auth/records.h"
#include "transport/socket/deadline.h"
#include "transport/socket/frame.h"
#include "transport/socket/socket.h"

namespace rondo::bootstrap {

using net::Frame;

// What has passed, both ways, on the wire.
struct LinkTraffic {
  std::uint64_t frames = 0, bytes = 0;
};

class FramedLink {
 public:
  // A place for a peer who has not connected yet: send and receive give kRemoteError.
  FramedLink() = default;
  FramedLink(net::Socket socket, auth::Records records)
      : socket_(std::move(socket)), records_(std::move(records)) {}
  // After a handshake. Fails where libcrypto does.
  static Result<FramedLink> make(net::Socket socket, const auth::Digest& session_key,
                                 auth::Records::Side side);

  bool valid() const { return socket_.valid(); }
  void close() { socket_.reset(); }

  Status send(std::uint16_t type, std::uint32_t round, ByteSpan payload);
  Status flush();
  bool unsent() const { return sent_ < outbox_.size(); }

  // The next frame if one has arrived. kRemoteError when the peer closed (closed() is true then)
  // or when what came is not what it sent.
  Result<std::optional<Frame>> receive();
  bool closed() const { return closed_; }

  const LinkTraffic& traffic() const { return traffic_; }

  // For poll(2): readable always, writable while bytes are unsent.
  pollfd entry() const;

  // Blocking forms. flush_all sends everything that is queued.
  Status flush_all(const net::Deadline& deadline, std::string_view what);
  Result<Frame> await(const net::Deadline& deadline, std::string_view what);

 private:
  net::Socket socket_;
  std::optional<auth::Records> records_;
  net::FrameParser parser_{net::kMaxPayload};
  Bytes outbox_;
  std::size_t sent_ = 0;
  bool closed_ = false;
  LinkTraffic traffic_;
};

}  // namespace rondo::bootstrap
