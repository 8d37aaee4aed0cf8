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
#include <span>

#include "base/result.h"
#include "transport/socket/socket.h"

namespace rondo::tcp {

struct IoOutcome {
  std::size_t bytes = 0;
  int error = 0;     // an errno: the connection is broken
  bool end = false;  // the peer closed; nothing will come any more
  bool over() const { return error != 0 || end; }
};

// "the peer closed its end", or the errno's text.
std::string text_of(const IoOutcome& outcome);

class Stream;

class Poller {
 public:
  static Result<Poller> open();
  // True if the kernel told something of some stream.
  bool wait(std::chrono::milliseconds at_most);
  int fd() const { return epoll_.get(); }

 private:
  friend class Stream;
  explicit Poller(net::Socket epoll) : epoll_(std::move(epoll)) {}
  net::Socket epoll_;
};

class Stream {
 public:
  // The poller must live longer. A socket that cannot be registered counts as broken.
  Stream(Poller& poller, net::Socket socket);
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  // Whether a call may move something. Says true where that is unknown.
  bool readable() const { return readable_; }
  bool writable() const { return writable_; }

  // At most kMostParts parts, none of them empty.
  IoOutcome read(std::span<iovec> parts);
  IoOutcome write(std::span<iovec> parts);
  // For a listener: accepted all that wait.
  void exhausted() { readable_ = false; }
  const net::Socket& socket() const { return socket_; }

  static constexpr std::size_t kMostParts = 16;

 private:
  friend class Poller;
  Poller& poller_;
  net::Socket socket_;
  int error_ = 0;
  bool readable_ = false;
  bool writable_ = false;
  bool hangup_ = false;  // the end or an error lies behind what is readable: read until it comes
};

}  // namespace rondo::tcp
