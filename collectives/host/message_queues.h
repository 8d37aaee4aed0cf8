// MessageQueues: the messages with tags of one rank that are under way: what it sends, what came
// before its receive, which receives wait; and how they end without their message: cancelled,
// aborted, their peer gone.
//
// Called with the owner's lock (tagged_messages.h). Guarantees: every request that leaves a queue
// has been finished, once. Cost: a search through the queues, for a match or an end.
#pragma once

#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "collectives/communicator/completion.h"
#include "collectives/communicator/rank_context.h"
#include "transport/connection.h"

namespace rondo {

class MessageQueues : RankPart {
 public:
  static constexpr int kAnySource = -1;
  using Request = std::shared_ptr<Completion>;

  struct Envelope {
    int peer = -1;
    int tag = 0;
    DataType type = DataType::kUint8;
  };
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

  explicit MessageQueues(RankContext& rank)
      : RankPart(rank), peers(static_cast<std::size_t>(members_.size)) {}

  // The first receive that waits for such a message, which it leaves; and the first message that
  // came before such a receive, or null.
  std::optional<Receive> match(const Envelope& from);
  Arrival* find_arrival(const Envelope& wanted);
  // Whether the length is right; otherwise the receive has failed.
  bool fits(const Receive& receive, const Envelope& from, std::size_t bytes);
  void finish_arrival(Arrival* arrival);
  void drop(const Arrival* arrival);

  // As TaggedMessages says.
  void cancel(const Completion* request, double waited_seconds);
  void end_all(const Error& error);  // needs no memory
  void fail_all(const Error& error);
  void fail_peer(int rank, const std::string& how);
  // Fails what needs ranks that have left, at most every 50 ms.
  void look_for_ended();

  bool any_unsent() const;
  std::uint64_t memory_bytes() const;

  std::vector<Peer> peers;
  std::list<Receive> posted;
  std::list<Arrival> unexpected;  // in the order of their first bytes
  std::optional<Error> aborted;
  std::int64_t last_look_ns = 0;

 private:
  // True if the request was there.
  bool cancel_receive(const Completion* request, double waited_seconds);
  bool cancel_with(int rank, const Completion* request, double waited_seconds);
  bool has_left(int rank) const;
  std::string what_has_come(int from) const;
};

}  // namespace rondo
