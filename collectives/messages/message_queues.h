// SPDX-License-Identifier: Apache-2.0
// MessageQueues: the tagged messages of one rank that are in progress: its sends, messages that
// arrived before their receive, and waiting receives. Also ends requests without their message:
// cancelled, aborted, or the peer is gone.
//
// Called with the owner's lock held (tagged_messages.h). Guarantees: every request that leaves a
// queue has been finished exactly once. Cost: a search through the queues per match or end.
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
#include "collectives/context/completion.h"
#include "collectives/rank/rank_context.h"
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
  enum Kind : std::uint8_t {
    kEager = 1,   // `of` is the tag; the bytes follow
    kOffer = 2,   // the tag; the slot holds the offer's id
    kGrant = 3,   // id of an offer; the receiver is ready
    kRefuse = 4,  // id of an offer; the slot holds the expected bytes
    kData = 5,    // id of an offer; the bytes follow
  };
  // Every slot of a message has one, in place of a call's record.
  struct Header {
    std::uint64_t bytes = 0;  // of the message
    Collective collective = Collective::kSend;
    DataType type = DataType::kUint8;
    Kind kind = kEager;
    std::uint8_t unused = 0;
    std::int32_t of = 0;
  };
  static_assert(sizeof(Header) == sizeof(CallRecord));
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
    const std::byte* next = nullptr;  // data not yet put into slots
    std::size_t left = 0;
    std::vector<std::byte> own;  // a copy, if the caller's buffer has been returned
    Request request;             // null: no caller waits for it
  };
  // A message that arrived before its receive.
  struct Arrival {
    Envelope from;
    std::uint32_t id = 0;  // id of an offer; 0: data holds the bytes
    std::size_t bytes = 0;
    std::vector<std::byte> data;
    bool complete = false;
    std::optional<Receive> claimed;  // by a receive posted before the last byte arrived
  };
  // The message whose slots are arriving.
  struct Incoming {
    std::byte* out = nullptr;  // null: its bytes are dropped
    std::size_t left = 0;
    Request request;             // request of the receive that it completes
    Arrival* arrival = nullptr;  // where it is kept if no receive waits
  };
  struct Peer {
    Connection* to = nullptr;
    Connection* from = nullptr;
    std::deque<Sending> out;
    std::optional<Incoming> incoming;
    std::map<std::uint32_t, Sending> offered;  // offers not answered yet
    std::map<std::uint32_t, Receive> granted;  // granted receives whose data has not arrived
    std::uint64_t eager_bytes = 0;             // eager limit of the peer
    bool looks_ended = false;
    bool refused = false;              // it sent an invalid message
    std::optional<std::string> ended;  // how it ended
  };

  explicit MessageQueues(RankContext& rank)
      : RankPart(rank), peers(static_cast<std::size_t>(members_.size)) {}

  // match: takes the first posted receive for such a message. find_arrival: the first message that
  // arrived before such a receive, or null.
  std::optional<Receive> match(const Envelope& from);
  Arrival* find_arrival(const Envelope& wanted);
  // True if the length matches; otherwise the receive fails.
  bool fits(const Receive& receive, const Envelope& from, std::size_t bytes);
  void finish_arrival(Arrival* arrival);
  void drop(const Arrival* arrival);

  // See TaggedMessages.
  void cancel(const Completion* request, double waited_seconds);
  void end_all(const Error& error);  // allocates nothing
  void fail_all(const Error& error);
  void fail_peer(int rank, const std::string& how);
  // Fails requests that need ranks that are gone, checking at most every 50 ms.
  void look_for_ended();

  bool any_unsent() const;
  std::uint64_t memory_bytes() const;

  std::vector<Peer> peers;
  std::list<Receive> posted;
  std::list<Arrival> unexpected;  // in the order of first arrival
  std::optional<Error> aborted;
  std::int64_t last_look_ns = 0;

 private:
  // True if the request was found.
  bool cancel_receive(const Completion* request, double waited_seconds);
  bool cancel_with(int rank, const Completion* request, double waited_seconds);
  bool has_left(int rank) const;
  std::string what_has_come(int from) const;
};

}  // namespace rondo
