// SPDX-License-Identifier: Apache-2.0
// TaggedMessages: messages with tags between the ranks of one communicator, independent of its
// collectives.
//
// They use a separate communicator, so a waiting receive blocks no collective. Messages of one pair
// and tag arrive in the order in which they were sent; different tags match in any order.
// Guarantees: send() never waits for the receiver. A message of up to `eager_bytes` completes at
// once (data without a free slot is copied); a longer one completes when the receiver has taken it.
// Lengths must be equal, or the receive fails and nothing is written beyond its buffer. Requests
// that need a peer that has ended fail. Cost: the thread that sends, receives or waits moves the
// data itself; a helper thread, started at the first message, moves it while no other thread does.
// A receive after its message arrived costs one more copy.
//
//   RONDO_TRY(auto messages, TaggedMessages::open(std::move(child), 4 << 20));
//   auto sent = messages->send({.peer = 1, .tag = 7, .type = type}, data, bytes);
//   auto got = messages->receive({.peer = TaggedMessages::kAnySource, .tag = 7}, out, bytes);
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>

#include "base/guard.h"
#include "base/result.h"
#include "base/thread.h"
#include "collectives/communicator/communicator.h"
#include "collectives/messages/message_queues.h"
#include "collectives/messages/message_traffic.h"

namespace rondo {

namespace test {
struct TaggedMessagesSeam;  // sets counters and limits
}

class TaggedMessages : public std::enable_shared_from_this<TaggedMessages> {
 public:
  static constexpr int kAnySource = MessageQueues::kAnySource;
  using Envelope = MessageQueues::Envelope;
  using Request = MessageQueues::Request;

  // Takes over the communicator: no other code may use it. Collective.
  static Result<std::shared_ptr<TaggedMessages>> open(std::shared_ptr<Communicator> own,
                                                      std::size_t eager_bytes);
  // Waits up to 10 s for sent data to leave.
  ~TaggedMessages();
  TaggedMessages(const TaggedMessages&) = delete;
  TaggedMessages& operator=(const TaggedMessages&) = delete;

  Result<Request> send(const Envelope& to, const void* data, std::size_t bytes);
  Result<Request> receive(const Envelope& from, void* out, std::size_t bytes);

  // Ends an unfinished request with an error that states what it waits for and what has arrived
  // instead. Its buffer is not accessed any more.
  void cancel(const Completion* request, double waited_seconds);
  // Ends all requests, current and later, with this error.
  void abort(const Error& error);
  // Moves all data that can move; for callers that wait.
  void help();
  // Waits until all sent data has left this process; false at the deadline.
  bool flush(std::chrono::steady_clock::time_point deadline);
  // Memory of its communicator, and of messages not yet received or not yet sent.
  std::uint64_t memory_bytes();
  std::uint64_t gpu_bytes();  // part of it

 private:
  friend struct test::TaggedMessagesSeam;
  TaggedMessages(std::shared_ptr<Communicator> own, std::size_t eager_bytes);

  // All with the lock. An exception leaves a message half moved: it ends all, here and on the
  // peers.
  template <class Body>
  auto or_end(Body&& body) {
    return guarded("messages", body, [this](const Error& error) { queues_.end_all(error); });
  }
  Result<Request> send_locked(const Envelope& to, const void* data, std::size_t bytes);
  Result<Request> receive_locked(const Envelope& from, void* out, std::size_t bytes);
  // A message of `bytes` in this direction, for the black box.
  Request new_request(Collective which, const Envelope& envelope, std::size_t bytes);
  Status usable(const Envelope& envelope) const;
  bool move();  // moves data or ends requests
  void look_for_ended();
  void deliver_to_self(const MessageQueues::Sending& sending);
  Status start_thread();

  void serve();  // body of the helper thread

  std::shared_ptr<Communicator> own_;
  CommunicatorState& state_;
  std::mutex mutex_;
  MessageQueues queues_;
  MessageTraffic traffic_;
  std::atomic<bool> closing_{false};
  Thread thread_;
};

}  // namespace rondo
