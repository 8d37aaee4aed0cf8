// SPDX-License-Identifier: Apache-2.0
// Stream, Poller: one non-blocking TCP socket, and its readiness as the kernel last reported it.
//
// The Poller registers each socket once, edge-triggered. A Stream stays readable or writable until
// a call finds that it no longer is. So a socket that cannot move costs no system call, and one
// poll() serves any number of sockets.
//
//   RONDO_TRY(Poller poller, Poller::open());
//   Stream stream(poller, std::move(socket));
//   while (!stream.readable()) poller.wait(0ms);
//   IoOutcome got = stream.read(parts);      // bytes 0 and no error: nothing available, try later
#pragma once

#include <sys/uio.h>

#include <chrono>
#include <memory>
#include <span>
#include <string>

#include "base/result.h"
#include "transport/auth/handshake.h"
#include "transport/auth/records.h"
#include "transport/socket/socket.h"

namespace rondo::net {

struct IoOutcome {
  std::size_t bytes = 0;
  int error = 0;     // an errno: the connection is broken
  bool end = false;  // the peer closed; no more bytes will arrive
  bool over() const { return error != 0 || end; }
};

// "the peer closed its end", or the errno's text.
std::string text_of(const IoOutcome& outcome);

// The last state of a descriptor that the kernel reported.
struct Readiness {
  bool readable = false;
  bool writable = false;
  bool hangup = false;  // an end or an error follows the readable bytes: read up to it
};

class Poller {
 public:
  static Result<Poller> open();
  // True if the kernel reported an event of any stream.
  bool wait(std::chrono::milliseconds at_most);
  int fd() const { return epoll_.get(); }

 private:
  friend class Stream;
  friend class Watch;
  explicit Poller(Socket epoll) : epoll_(std::move(epoll)) {}
  Socket epoll_;
};

// Reports when a foreign descriptor is readable. The descriptor and the poller must outlive it.
class Watch {
 public:
  Watch(Poller& poller, int fd);
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  bool readable() const { return state_.readable; }
  void seen() { state_.readable = false; }  // the next poll sets it again if needed

 private:
  Poller& poller_;
  const int fd_;
  Readiness state_;
};

class Stream {
 public:
  // The poller must outlive the stream. A socket that cannot be registered counts as broken.
  Stream(Poller& poller, Socket socket);
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  // Whether a call may move something. True if unknown.
  bool readable() const { return state_.readable; }
  bool writable() const { return state_.writable; }

  // At most kMaxParts parts, none of them empty.
  IoOutcome read(std::span<iovec> parts);
  IoOutcome write(std::span<iovec> parts);
  // From now on, all bytes travel as records. A write counts its bytes once their whole record has
  // been sent. Error EBADMSG: received bytes do not verify.
  void seal(auth::Records records);
  const Socket& socket() const { return socket_; }

  static constexpr std::size_t kMaxParts = 16;

 private:
  struct Sealing {
    auth::Records records;
    Bytes outbox{};         // one record
    std::size_t sent = 0;   // sent bytes of the record
    std::size_t bytes = 0;  // payload bytes in the record
    ByteSpan opened{};      // verified bytes that were not read yet
  };
  IoOutcome read_sealed(std::span<iovec> parts);
  IoOutcome write_sealed(std::span<iovec> parts);

  Poller& poller_;
  Socket socket_;
  int error_ = 0;
  Readiness state_;
  std::unique_ptr<Sealing> sealing_;
};

std::string interface_of(const Stream& stream);  // its name; empty: unknown

// Sends and receives the bytes of a handshake as far as possible now.
IoOutcome move(auth::Handshake& handshake, Stream& stream);

// Vigilance: the time after which a silent host counts as dead. The kernel's TCP timers enforce it.
struct Vigilance {
  int seconds = 20;  // RONDO_NET_TIMEOUT
};

// Makes the kernel end a connection whose host is silent. few_bytes: the peer reads all bytes at
// once, so unacknowledged bytes also mean a dead host; otherwise they are normal back-pressure.
void watch(const Stream& stream, const Vigilance& vigilance, bool few_bytes);

// Reads pending bytes before the close: closing a socket with unread bytes resets the connection,
// and the peer would lose the last bytes of this side. Allocates no memory.
void close_gently(const Stream& stream);

}  // namespace rondo::net
