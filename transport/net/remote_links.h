// RemoteLinks: everything that connects one rank of a communicator to ranks on other hosts.
//
// Connections to and from a peer are made at first use and are usable at once: slots wait in them
// until the link is there. Both ranks agree without a message who connects: for lanes of data the
// lower rank; on the control lane the rank that sends first, and the higher rank also at its first
// use of any lane. So each side holds a link that it opened itself, by which it sees the other die.
// Links of a peer open, fill and fail without regard to other peers.
// Guarantees: nothing blocks but flush(deadline); no thread and no lock: one thread at a time (the
// rank's own) calls anything here. A peer that closed, died or cannot be reached is named by
// error_of(). Only holders of the secret get a link. Cost: progress() is a few loads for each open
// link, and one system call when nothing moved.
//
//   RONDO_TRY(auto links, RemoteLinks::open({0, 4, std::move(network)}));
//   links->set_peers(session->all_gather(links->address_blob()));       // blobs by rank
//   RONDO_TRY(Connection* to, links->sender(3, net::kCollectiveLane));
//   while (!SendEnd<>(*to).ready()) {                                   // the Waiter's idle hook
//     links->progress();
//     if (auto error = links->error_of(3); !error.ok()) return error;
//   }
//   // parked: net::Sleeper, then progress(). End of a call: until links->unflushed_data_peer() is
//   // -1.
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
  std::unique_ptr<net::Network> network = {};  // transport/network_agreement.h
  std::unique_ptr<net::Network> data = {};     // of the data lanes, where it is another one
  net::SlotShape slots;                        // of the data lanes; the same on all ranks
  // A message on the control lane has come. Called from progress(); it may call send_control(),
  // nothing else here. The bytes are valid during the call.
  std::function<void(int peer, std::span<const std::byte>)> on_control = {};
};

class RemoteLinks final : public net::WakeSource {
 public:
  static constexpr std::size_t kMaxControlBytes = 4096;

  // Listens. Fails where no network interface may be used (NCCL_SOCKET_IFNAME).
  static Result<std::unique_ptr<RemoteLinks>> open(RemoteLinksOptions options);
  ~RemoteLinks() override;
  RemoteLinks(const RemoteLinks&) = delete;
  RemoteLinks& operator=(const RemoteLinks&) = delete;

  // Where this rank listens, for all others.
  const std::vector<std::byte>& address_blob() const;
  const std::vector<std::byte>& data_address_blob() const;  // on the data lanes' network
  // The blobs of all ranks, by rank; an empty one for ranks that are never spoken to.
  void set_peers(std::vector<std::vector<std::byte>> blobs,
                 std::vector<std::vector<std::byte>> data_blobs = {});
  void set_control_handler(std::function<void(int peer, std::span<const std::byte>)> handler);

  // To and from a peer. The pointer is valid as long as this object. kInvalidArgument: no such
  // peer or lane; kSystemError: no memory, no descriptors.
  Result<Connection*> sender(int peer, int lane);
  Result<Connection*> receiver(int peer, int lane);
  // The link of a lane, which opens from the first time that both ranks ask for it, or for slots on
  // it; null: the peer, who connects, has not done so yet.
  Result<net::Link*> link(int peer, int lane);
  net::Network& data_network() const;  // of the data lanes

  // Moves what can move now. True if something did.
  bool progress();
  // What ended the traffic with this peer. A peer that closed after its last byte is an error here
  // too: ask only while something is still awaited from it.
  Status error_of(int peer) const;
  // False while the links to this peer are still being opened.
  bool reached(int peer) const;

  // At most kMaxControlBytes; kept until the link takes it, even where it has to be opened first.
  // A peer that computes reads nothing: one that leaves more than about 64 KiB unread for
  // RONDO_NET_TIMEOUT counts as dead, so bound what is said to it without an answer.
  Status send_control(int peer, std::span<const std::byte> message);

  // All slots and control messages have left user space, except to peers that error_of() names.
  bool flushed() const { return unflushed_peer() < 0; }
  int unflushed_peer() const;       // a peer for which something waits here; -1: none
  int unflushed_data_peer() const;  // the same, but for control messages
  bool data_flushed(int peer) const;

  // How many slots ever went to a peer, and how many came from it, on one lane. Two ranks that
  // compare theirs know whether anything is still on its way between them.
  struct LaneTraffic {
    std::uint64_t sent = 0;
    std::uint64_t received = 0;
    std::uint8_t full = 0;  // slots that come on this lane wait until this rank has read others
  };
  using Traffic = std::array<LaneTraffic, net::kLanes>;  // nothing on the control lane
  Traffic traffic(int peer) const;
  Status flush(std::chrono::steady_clock::time_point deadline);

  bool arm() override;
  int poll_fd() const override;

  // Closes all links: peers see the end, bytes that have left user space still arrive.
  void close();

 private:
  struct State;
  explicit RemoteLinks(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace rondo
