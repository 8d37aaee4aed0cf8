// SPDX-License-Identifier: Apache-2.0
// WaitingChild: a child process that receives an address later.
//
// It is forked before this process has a network, because a network's library may start threads and
// a fork keeps none of them.
//
//   const WaitingChild child([&](ByteSpan address) { ...; ::_exit(0); });
//   child.send_address(network->listen().value());
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include "base/bytes.h"

namespace rondo::test {

class WaitingChild {
 public:
  // body(address) must not return.
  template <class Body>
  explicit WaitingChild(Body body) {
    EXPECT_EQ(::pipe(gate_), 0);
    pid_ = ::fork();
    if (pid_ != 0) return;
    ::alarm(300);
    ::close(gate_[1]);
    Bytes address(4096);
    const ssize_t got = ::read(gate_[0], address.data(), address.size());
    if (got > 0) body(ByteSpan(address).first(static_cast<std::size_t>(got)));
    ::_exit(1);
  }
  ~WaitingChild() {
    ::close(gate_[0]);
    ::close(gate_[1]);
  }
  WaitingChild(const WaitingChild&) = delete;
  WaitingChild& operator=(const WaitingChild&) = delete;

  pid_t pid() const { return pid_; }
  void send_address(const Bytes& address) const {
    EXPECT_EQ(::write(gate_[1], address.data(), address.size()),
              static_cast<ssize_t>(address.size()));
  }

 private:
  int gate_[2] = {-1, -1};
  pid_t pid_ = -1;
};

}  // namespace rondo::test
