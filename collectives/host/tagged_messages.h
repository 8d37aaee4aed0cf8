// TaggedMessages: messages with tags between the ranks of one communicator, beside its collectives.
//
// They have a communicator of their own, so that a receive that waits holds up no collective.
// Messages of one pair and tag arrive in the order in which they were sent; tags match in any
// order. Guarantees: send() never waits for the receiver: up to `eager_bytes` it is complete at
// once (what the slots do not hold is copied), beyond that once the receiver has taken it. Lengths
// must be equal, or the receive fails and nothing is written beyond its buffer. Requests that need
// a peer that has ended fail. Cost: the thread that sends, receives or waits moves bytes itself; a
// thread made at the first message moves them while no other one does. Receives that come late cost
// one more copy.
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
#include "collectives/host/message_queues.h"
#include "collectives/host/message_traffic.h"

namespace rondo {

namespace test {
struct TaggedMessagesSeam;  // sets counters and limits
}

class TaggedMessages : public std::enable_shared_from_this<TaggedMessages> {
 public:
  static constexpr int kAnySource = MessageQueues::kAnySource;
  using Envelope = MessageQueues::Envelope;
  using Request = MessageQueues::Request;

  // Takes the communicator for itself: nobody else may use it. Collective.
  static Result<std::shared_ptr<TaggedMessages>> open(std::shared_ptr<Communicator> own,
                                                      std::size_t eager_bytes);
  // Gives what was sent a moment to leave.
  ~TaggedMessages();
  TaggedMessages(const TaggedMessages&) = delete;
  TaggedMessages& operator=(const TaggedMessages&) = delete;

  Result<Request> send(const Envelope& to, const void* data, std::size_t bytes);
  Result<Request> receive(const Envelope& from, void* out, std::size_t bytes);

  // Ends a request that is not finished, with an error that says what it waits for and what has
  // come instead. Its buffer is not touched any more.
  void cancel(const Completion* request, double waited_seconds);
  // Ends everything with this error, now and later.
  void abort(const Error& error);
  // Moves what can move; for those who wait.
  void help();
  // Waits until all that was sent has left this process; false where it did not.
  bool flush(std::chrono::steady_clock::time_point deadline);
  // Of its communicator, and of messages that nobody has received or that wait to leave.
  std::uint64_t memory_bytes();

 private:
  friend struct test::TaggedMessagesSeam;
  TaggedMessages(std::shared_ptr<Communicator> own, std::size_t eager_bytes);

  // All with the lock.
  // What throws leaves a message half moved: it ends them all, here and on the peers.
  template <class Body>
  auto or_end(Body&& body) {
    return guarded("messages", body, [this](const Error& error) { queues_.end_all(error); });
  }
  Result<Request> send_locked(const Envelope& to, const void* data, std::size_t bytes);
  Result<Request> receive_locked(const Envelope& from, void* out, std::size_t bytes);
  Request new_request();
  Status usable(const Envelope& envelope) const;
  bool move();  // progress or the end
  void look_for_ended();
  void deliver_to_self(const MessageQueues::Sending& sending);
  Status start_thread();

  void serve();  // the thread

  std::shared_ptr<Communicator> own_;
  CommunicatorState& state_;
  std::mutex mutex_;
  MessageQueues queues_;
  MessageTraffic traffic_;
  std::atomic<bool> closing_{false};
  Thread thread_;
};

}  // namespace rondo
