// Stream, Poller: one non-blocking TCP socket, and what the kernel last said about it.
//
// The Poller registers each socket once, edge-triggered; a Stream remembers that it is readable or
// writable until a call finds that it no longer is. So a socket that cannot move costs no system
// call, and one poll() serves any number of sockets.
//
//   RONDO_TRY(Poller poller, Poller::open());
//   Stream stream(poller, std::move(socket));
//   while (!stream.readable()) poller.wait(0ms);
//   IoOutcome got = stream.read(parts);      // bytes 0 and no error: nothing there, try later
#pragma once

#include <sys/uio.h>

#include <chrono>
#include <memory>
#include <span>

#include "base/result.h"
#include "transport/auth/handshake.h"
#include "transport/auth/records.h"
#include "transport/socket/socket.h"

namespace rondo::net {

struct IoOutcome {
  std::size_t bytes = 0;
  int error = 0;     // an errno: the connection is broken
  bool end = false;  // the peer closed; nothing will come any more
  bool over() const { return error != 0 || end; }
};

// "the peer closed its end", or the errno's text.
std::string text_of(const IoOutcome& outcome);

// What the kernel last said of a descriptor.
struct Readiness {
  bool readable = false;
  bool writable = false;
  bool hangup = false;  // the end or an error lies behind what is readable: read until it comes
};

class Poller {
 public:
  static Result<Poller> open();
  // True if the kernel told something of some stream.
  bool wait(std::chrono::milliseconds at_most);
  int fd() const { return epoll_.get(); }

 private:
  friend class Stream;
  friend class Watch;
  explicit Poller(Socket epoll) : epoll_(std::move(epoll)) {}
  Socket epoll_;
};

// Tells when a descriptor of somebody else's is readable. Both it and the poller must live longer.
class Watch {
 public:
  Watch(Poller& poller, int fd);
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  bool readable() const { return state_.readable; }
  void seen() { state_.readable = false; }  // told again by the next poll, if it still is

 private:
  Poller& poller_;
  const int fd_;
  Readiness state_;
};

class Stream {
 public:
  // The poller must live longer. A socket that cannot be registered counts as broken.
  Stream(Poller& poller, Socket socket);
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  // Whether a call may move something. Says true where that is unknown.
  bool readable() const { return state_.readable; }
  bool writable() const { return state_.writable; }

  // At most kMaxParts parts, none of them empty.
  IoOutcome read(std::span<iovec> parts);
  IoOutcome write(std::span<iovec> parts);
  // From here on, what is written and read travels as records; a write counts its bytes when all
  // of their record is out. error EBADMSG: what came does not verify.
  void seal(auth::Records records);
  const Socket& socket() const { return socket_; }

  static constexpr std::size_t kMaxParts = 16;

 private:
  struct Sealing {
    auth::Records records;
    Bytes outbox{};         // one record
    std::size_t sent = 0;   // of it
    std::size_t bytes = 0;  // that are in it
    ByteSpan opened{};      // what has verified and was not read yet
  };
  IoOutcome read_sealed(std::span<iovec> parts);
  IoOutcome write_sealed(std::span<iovec> parts);

  Poller& poller_;
  Socket socket_;
  int error_ = 0;
  Readiness state_;
  std::unique_ptr<Sealing> sealing_;
};

// Moves what can move of a handshake now.
IoOutcome move(auth::Handshake& handshake, Stream& stream);

}  // namespace rondo::net
