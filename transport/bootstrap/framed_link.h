// SPDX-License-Identifier: Apache-2.0
// FramedLink: a connection after its handshake. Sends and receives frames, as records under the
// session key, without blocking.
//
// Guarantees: no SIGPIPE. Frames that arrived before the peer closed are still returned. Bytes that
// differ from what the peer sent, or arrive in another order, end the link with an error. Cost: one
// system call for a small frame, and one per 16 KiB received.
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
#include "transport/socket/frame.h"
#include "transport/socket/socket.h"

namespace rondo::bootstrap {

using net::Frame;

// Totals on the wire, both directions.
struct LinkTraffic {
  std::uint64_t frames = 0, bytes = 0;
};

class FramedLink {
 public:
  // A placeholder for a peer that has not connected yet: send and receive return kRemoteError.
  FramedLink() = default;
  FramedLink(net::Socket socket, auth::Records records)
      : socket_(std::move(socket)), records_(std::move(records)) {}
  // For a socket after its handshake. Fails only if libcrypto fails.
  static Result<FramedLink> make(net::Socket socket, const auth::Digest& session_key,
                                 auth::Records::Side side);

  bool valid() const { return socket_.valid(); }
  void close() { socket_.reset(); }

  Status send(std::uint16_t type, std::uint32_t round, ByteSpan payload);
  Status flush();
  bool unsent() const { return sent_ < outbox_.size(); }

  // The next frame if one has arrived. kRemoteError if the peer closed (then closed() is true) or
  // if the bytes do not verify.
  Result<std::optional<Frame>> receive();
  bool closed() const { return closed_; }

  const LinkTraffic& traffic() const { return traffic_; }

  // For poll(2): POLLIN always, POLLOUT while bytes are unsent.
  pollfd entry() const;

  // Blocking forms. flush_all sends all queued bytes.
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
