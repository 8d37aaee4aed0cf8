// Mailbox: messages with tags between the ranks of one communicator, beside its collectives.
//
// It has a communicator of its own, so that a receive that waits holds up no collective. Messages
// of one pair and tag arrive in the order in which they were sent; tags match in any order.
// Guarantees: send() never waits for the receiver: up to `eager_bytes` it is complete at once (what
// the slots do not hold is copied), beyond that once the receiver has taken it. Lengths must be
// equal, or the receive fails and nothing is written beyond its buffer. A peer that has ended fails
// what needs it. Cost: whoever sends, receives or waits moves bytes itself; a thread, made at the
// first message, moves them while nobody does. Receives that come late cost one more copy.
//
//   RONDO_TRY(auto mailbox, Mailbox::open(std::move(child), 4 << 20));
//   auto sent = mailbox->send({.peer = 1, .tag = 7, .type = type}, data, bytes);
//   auto got = mailbox->receive({.peer = Mailbox::kAnySource, .tag = 7, .type = type}, out, bytes);
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/thread.h"
#include "collectives/communicator/communicator.h"
#include "collectives/communicator/completion.h"
#include "transport/connection.h"

namespace rondo {

namespace test {
struct MailboxSeam;  // sets counters and limits of a Mailbox
}

class Mailbox : public std::enable_shared_from_this<Mailbox> {
 public:
  static constexpr int kAnySource = -1;

  struct Envelope {
    int peer = -1;
    int tag = 0;
    DataType type = DataType::kUint8;
  };

  // Takes the communicator for itself: nobody else may use it. Collective.
  static Result<std::shared_ptr<Mailbox>> open(std::shared_ptr<Communicator> own,
                                               std::size_t eager_bytes);
  // Gives what was sent a moment to leave.
  ~Mailbox();
  Mailbox(const Mailbox&) = delete;
  Mailbox& operator=(const Mailbox&) = delete;

  using Request = std::shared_ptr<Completion>;
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
  friend struct test::MailboxSeam;
  Mailbox(std::shared_ptr<Communicator> own, std::size_t eager_bytes);

  // The first slot of a message says which of these it is; so do all others.
  enum Kind : std::uint8_t {
    kEager = 1,   // root: tag; the bytes follow
    kOffer = 2,   // root: tag, count: bytes; its id is in the slot
    kGrant = 3,   // root: id of an offer; the receiver is ready
    kRefuse = 4,  // the same; the receiver expects as many bytes as the slot says
    kData = 5,    // root: id of an offer; the bytes follow
  };
  struct Receive {
    Envelope from;
    std::byte* out = nullptr;
    std::size_t bytes = 0;
    Request request;
  };
  struct Sending {
    Kind kind = kEager;
    Envelope to;
    std::uint32_t id = 0;
    std::size_t bytes = 0;
    const std::byte* next = nullptr;  // what is still to be put into slots
    std::size_t left = 0;
    std::vector<std::byte> own;  // where the caller's buffer has been given back
    Request request;             // null: nobody asks
  };
  // A message that came before its receive.
  struct Arrival {
    Envelope from;
    std::uint32_t id = 0;  // of an offer; 0: data holds the bytes
    std::size_t bytes = 0;
    std::vector<std::byte> data;
    bool complete = false;
    std::optional<Receive> claimed;  // by a receive that came before the last byte
  };
  // The message whose slots are coming.
  struct Incoming {
    std::byte* out = nullptr;  // null: its bytes are dropped
    std::size_t left = 0;
    Request request;             // of the receive that it completes
    Arrival* arrival = nullptr;  // or where it is kept
  };
  struct Peer {
    Connection* to = nullptr;
    Connection* from = nullptr;
    std::deque<Sending> out;
    std::optional<Incoming> incoming;
    std::map<std::uint32_t, Sending> offered;  // without an answer yet
    std::map<std::uint32_t, Receive> granted;  // their data is to come
    std::uint64_t eager_bytes = 0;             // its own
    bool looks_ended = false;
    bool refused = false;              // what it sent made no sense
    std::optional<std::string> ended;  // how
  };

  // All with the lock.
  // What throws leaves a message half moved: it ends them all, here and on the peers.
  template <class Body>
  auto or_end(Body&& body) {
    return guarded("messages", body, [this](const Error& error) { end_all(error); });
  }
  void end_all(const Error& error);  // needs no memory
  Result<Request> send_locked(const Envelope& to, const void* data, std::size_t bytes);
  Result<Request> receive_locked(const Envelope& from, void* out, std::size_t bytes);
  void cancel_locked(const Completion* request, double waited_seconds);
  bool move();      // progress() or the end
  bool progress();  // true if something moved
  bool pull(int from);
  bool push(int to);
  void begin(int from, const CallRecord& record, const std::byte* slot);
  void take(int from, const std::byte* bytes, std::size_t count);
  void answer(int from, std::uint32_t id, const std::uint64_t* refused);
  void accept_offer(const Receive& receive, const Arrival& offer);
  void finish_arrival(Arrival* arrival);
  bool fits(const Receive& receive, const Envelope& from, std::size_t bytes);
  std::optional<Receive> match(const Envelope& from);
  std::uint32_t next_id(const Peer& peer);
  void enqueue(int to, Sending sending);
  void deliver_to_self(Sending& sending);
  Done usable(const Envelope& envelope) const;
  void fail_all(const Error& error);
  void fail_peer(int rank, const std::string& how);
  void look_for_ended();
  bool has_left(int rank) const;
  std::string what_has_come(int from) const;
  Done open_connections();
  Done start_thread();
  void refuse(int peer, const std::string& what);  // what a peer sent cannot be
  void serve();

  std::shared_ptr<Communicator> own_;
  CommunicatorState& state_;
  const std::size_t eager_bytes_;
  std::mutex mutex_;
  std::vector<Peer> peers_;
  std::list<Receive> posted_;
  std::list<Arrival> unexpected_;  // in the order of their first bytes
  std::uint32_t last_id_ = 0;      // of an offer
  std::optional<Error> aborted_;
  std::int64_t last_look_ns_ = 0;
  std::atomic<bool> closing_{false};
  Thread thread_;
};

}  // namespace rondo
