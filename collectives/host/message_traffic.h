// MessageTraffic: turns messages with tags into slots of the connections to their peers, and slots
// into messages.
//
// Up to its `eager_bytes` a message goes at once; a larger one is offered, and goes when the
// receiver has granted it. Called with the owner's lock (tagged_messages.h). Guarantees: an
// impossible message from a peer fails the requests that need that peer, and nothing else. Cost: a
// copy into a slot and one out of it; one more where no slot is free, and where no receive waits
// yet.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "collectives/host/message_queues.h"

namespace rondo {

class MessageTraffic : RankPart {
 public:
  MessageTraffic(RankContext& rank, MessageQueues& queues, std::size_t eager_bytes)
      : RankPart(rank), queues_(queues), eager_bytes_(eager_bytes) {}

  // Messages come unasked, so the connection from every peer is open from the start, and all ranks
  // know how long messages may be. limits: of all ranks, by rank.
  Status open(std::span<const std::vector<std::byte>> limits);

  Status send(MessageQueues::Sending sending);
  void accept_offer(const MessageQueues::Receive& receive, const MessageQueues::Arrival& offer);
  bool progress();  // true if something moved

  std::uint32_t last_offer = 0;  // its id

 private:
  using Peer = MessageQueues::Peer;
  Status open_to(int rank);
  void enqueue(int to, MessageQueues::Sending sending);
  bool push(int to);
  bool pull(int from);
  void begin(int from, const CallRecord& record, const std::byte* slot);
  void begin_data(int from, const CallRecord& record);
  void take(int from, const std::byte* bytes, std::size_t count);
  void answer(int from, std::uint32_t id, const std::uint64_t* refused);
  void refuse(int from, const std::string& what);  // what a peer sent cannot be
  std::uint32_t next_id(const Peer& peer);

  MessageQueues& queues_;
  const std::size_t eager_bytes_;
};

}  // namespace rondo
