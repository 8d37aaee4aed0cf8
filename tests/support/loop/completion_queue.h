// SPDX-License-Identifier: Apache-2.0
// CompletionQueue: notifies a rank of the loop network that a peer has written something.
//
// It works like a completion channel of InfiniBand: the descriptor becomes readable once, for the
// first event after arm(). A thread that sleeps on an unarmed queue never wakes. The queue is in
// shared memory, so that peers can ring it.
#pragma once

#include <atomic>
#include <optional>
#include <string>

#include "base/fd.h"
#include "tests/support/loop/loop_memory.h"

namespace rondo::test {

class CompletionQueue {
 public:
  static Result<CompletionQueue> make();

  // Returns false if an event arrived since take().
  bool arm();
  // Returns the events since the last call, and resets the descriptor.
  bool take();
  int poll_fd() const { return bell_.get(); }
  int file() const { return words_.fd(); }
  const std::string& address() const { return address_; }

 private:
  friend class RemoteQueue;
  struct Words {
    std::atomic<std::uint64_t> events;
    std::atomic<std::uint32_t> armed;
  };
  CompletionQueue(SharedFile words, Fd bell, std::string address)
      : words_(std::move(words)), bell_(std::move(bell)), address_(std::move(address)) {}

  SharedFile words_;
  Fd bell_;  // a datagram socket, so that other processes reach it by name
  std::string address_;
  std::uint64_t taken_ = 0;
};

// The queue of a peer.
class RemoteQueue {
 public:
  static Result<RemoteQueue> open(int pid, int file, const std::string& address);
  void ring() const;

 private:
  RemoteQueue(SharedFile words, Fd socket) : words_(std::move(words)), socket_(std::move(socket)) {}
  SharedFile words_;
  Fd socket_;
};

}  // namespace rondo::test
