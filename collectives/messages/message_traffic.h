// SPDX-License-Identifier: Apache-2.0
// MessageTraffic: moves tagged messages into slots of the connections to their peers, and slots
// into messages.
//
// A message of up to `eager_bytes` is sent at once; a larger one is offered, and sent when the
// receiver has granted it. Called with the owner's lock held (tagged_messages.h). Guarantees: an
// invalid message from a peer fails only the requests that need that peer. Cost: one copy into a
// slot and one out of it; one more if no slot is free, or if no receive waits yet.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "collectives/messages/message_queues.h"

namespace rondo {

class MessageTraffic : RankPart {
 public:
  MessageTraffic(RankContext& rank, MessageQueues& queues, std::size_t eager_bytes)
      : RankPart(rank), queues_(queues), eager_bytes_(eager_bytes) {}

  // Opens the connection from every peer, because messages arrive without a request, and takes the
  // longest eager message of each rank. limits: of all ranks, by rank.
  Status open(std::span<const std::vector<std::byte>> limits);

  Status send(MessageQueues::Sending sending);
  void accept_offer(const MessageQueues::Receive& receive, const MessageQueues::Arrival& offer);
  bool progress();  // true if something moved

  std::uint32_t last_offer = 0;  // id of the newest offer

 private:
  using Header = MessageQueues::Header;
  using Peer = MessageQueues::Peer;
  Status open_to(int rank);
  void enqueue(int to, MessageQueues::Sending sending);
  bool push(int to);
  bool pull(int from);
  void begin(int from, const Header& header, const std::byte* slot);
  void begin_data(int from, const Header& header);
  void take(int from, const std::byte* bytes, std::size_t count);
  void answer(int from, std::uint32_t id, const std::uint64_t* refused);
  void refuse(int from, const std::string& what);  // for an invalid message of a peer
  std::uint32_t next_id(const Peer& peer);

  MessageQueues& queues_;
  const std::size_t eager_bytes_;
};

}  // namespace rondo
