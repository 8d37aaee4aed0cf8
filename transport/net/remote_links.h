// SPDX-License-Identifier: Apache-2.0
// RemoteLinks: connects one rank of a communicator to ranks on other hosts.
//
// Connections to and from a peer are made at first use and are usable at once: filled slots wait
// until the link is open. Both ranks know without a message which of them connects. Data lanes: the
// lower rank. Control lane: the rank that sends first, and also the higher rank at its first use of
// any data lane. So each side holds a link that it opened itself, which shows the other side's
// death. The links of one peer open, fill and fail independently of other peers.
// Guarantees: only flush(deadline) blocks. No threads and no locks: one thread at a time (the
// rank's own) calls anything here. error_of() names a peer that closed, died or cannot be reached.
// Only holders of the secret get a link. Cost: progress() is a few loads per open link, plus one
// system call when nothing moved.
//
//   RONDO_TRY(auto links, RemoteLinks::open({0, 4, std::move(network)}));
//   links->set_peers(session->all_gather(links->address_blob()));       // blobs by rank
//   RONDO_TRY(Connection* to, links->sender(3, net::kCollectiveLane));
//   while (!SendEnd<>(*to).ready()) {                                   // the Waiter's idle hook
//     links->progress();
//     if (auto error = links->error_of(3); !error.ok()) return error;
//   }
//   // To sleep: net::Sleeper, then progress(). End of a call: until links->unflushed_data_peer()
//   // is -1.
#pragma once

#include <array>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "transport/connection.h"
#include "transport/net/net.h"
#include "transport/net/slot_channel.h"

namespace rondo {

struct RemoteLinksOptions {
  int rank = 0;
  int size = 1;
  std::unique_ptr<net::Network> network = {};  // transport/networks/network_agreement.h
  std::unique_ptr<net::Network> data = {};     // for data lanes; null: use `network`
  net::SlotShape slots;                        // for data lanes; the same on all ranks
  NetworkCounters* counters = nullptr;         // may be shared; must outlive the links; null: none
  std::span<RailCounters> rails = {};          // the same; empty: none
  std::vector<int> host_of = {};               // by rank, for `rails`
  // Receives the messages of the control lane. progress() calls it. It may call send_control(), and
  // no other function here. The bytes are valid during the call.
  std::function<void(int peer, std::span<const std::byte>)> on_control = {};
};

class RemoteLinks final : public net::WakeSource {
 public:
  static constexpr std::size_t kMaxControlBytes = 4096;

  // Listens. Fails if no network interface is usable (NCCL_SOCKET_IFNAME).
  static Result<std::unique_ptr<RemoteLinks>> open(RemoteLinksOptions options);
  ~RemoteLinks() override;
  RemoteLinks(const RemoteLinks&) = delete;
  RemoteLinks& operator=(const RemoteLinks&) = delete;

  // The listening addresses of this rank, for all others.
  const std::vector<std::byte>& address_blob() const;
  const std::vector<std::byte>& data_address_blob() const;  // on the network of the data lanes
  // The address blobs of all ranks, by rank; empty for ranks that this rank never connects to.
  void set_peers(std::vector<std::vector<std::byte>> blobs,
                 std::vector<std::vector<std::byte>> data_blobs = {});
  void set_control_handler(std::function<void(int peer, std::span<const std::byte>)> handler);

  // Connections to and from a peer, valid as long as this object. kInvalidArgument: no such peer or
  // lane; kSystemError: no memory or no descriptors.
  Result<Connection*> sender(int peer, int lane);
  Result<Connection*> receiver(int peer, int lane);
  // The link of a lane. It opens once both ranks have asked for it or for slots on it. Null: the
  // peer connects on this lane and has not done so yet.
  Result<net::Link*> link(int peer, int lane);
  net::Network& data_network() const;  // network of the data lanes

  // Moves what can move now. True if something moved.
  bool progress();
  // The error that ended the traffic with this peer. A regular close of the peer is also an error
  // here: ask only while this rank still waits for data from it.
  Status error_of(int peer) const;
  // True if this rank has links to this peer and all of them are open.
  bool reached(int peer) const;

  // Queues at most kMaxControlBytes until the link takes them; opens the link if necessary. A peer
  // that computes reads nothing, and a peer that leaves more than about 64 KiB unread for
  // RONDO_NET_TIMEOUT counts as dead. So limit the bytes that are sent without an answer.
  Status send_control(int peer, std::span<const std::byte> message);

  // All slots and control messages have left user space, except to peers that error_of() names.
  bool flushed() const { return unflushed_peer() < 0; }
  int unflushed_peer() const;       // a peer with unsent slots or messages; -1: none
  int unflushed_data_peer() const;  // the same, ignoring control messages
  bool data_flushed(int peer) const;

  // Total slots sent to and received from a peer on one lane. Two ranks that compare their counts
  // know whether anything is in flight between them.
  struct LaneTraffic {
    std::uint64_t sent = 0;
    std::uint64_t received = 0;
    std::uint8_t full = 0;  // 1: no free slot; more can arrive only after this rank reads
  };
  using Traffic = std::array<LaneTraffic, net::kLanes>;  // zero for the control lane
  Traffic traffic(int peer) const;
  Status flush(std::chrono::steady_clock::time_point deadline);

  bool arm() override;
  int poll_fd() const override;

  // Closes all links. Peers see the end; bytes that have left user space still arrive.
  void close();

 private:
  struct State;
  explicit RemoteLinks(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace rondo
