// SPDX-License-Identifier: Apache-2.0
// NetProxy: transfers the slots of one rank's connections to and from ranks of other hosts.
//
// A sending kernel fills slots of a bounce buffer (connection_layout.h) and advances its tail, in
// pinned memory. The net proxy sends each slot as a message over the connection's own link, and
// advances head once it is sent. On the other host a net proxy receives into free slots and
// advances the tail that the receiving kernel waits for. No credits are sent: a receiver offers
// only free slots, and the network's own flow control stops the sender. There is no state per call,
// so graph replays need no host code. Words are in pinned memory; slots are too, or in GPU memory
// (direct_memory.h) if the network's adapters can access it. Guarantees: slots of a line arrive
// whole and in order; lines never delay each other; nothing blocks. For one thread at a time,
// except add(): lines can be added later, on either side first. Cost: progress() of a line that
// cannot move is a few loads; nothing is allocated once all links are open.
//
//   RONDO_TRY(auto net_proxy, NetProxy::open(std::move(network), {lines}));
//   RONDO_CHECK_OK(net_proxy->connect(addresses));  // every rank's address()
//   net_proxy->add(line);                           // any thread; open_added() opens its link
//   while (...) { ...open_added()... if (!net_proxy->progress()) ...net::Sleeper... }
#pragma once

#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "base/result.h"
#include "transport/connection.h"
#include "transport/net/net.h"
#include "transport/net/sleeper.h"
#include "transport/net/slot_channel.h"
#include "transport/proxy/direct_memory.h"

namespace rondo::gpu {

// Maximum numbers of channels between two ranks: of connections, of messages.
inline constexpr int kMaxProxyChannels = 64, kMaxProxyMessageChannels = 8;
// Names of links: of a connection's channel and lane (trees have two lanes); of a message channel.
net::LinkName net_proxy_link(int from, int to, int lane, int channel);
net::LinkName net_proxy_message_link(int from, int to, int channel);

// One connection: `end` is this side of it. A sender's `used` holds the number of bytes in a slot.
struct NetProxyLine {
  net::LinkName name;
  Connection end;
  bool sends = false;
  DirectBlock block = {};  // contains the slots; null: they are in host memory
};

class NetProxy final : public net::WakeSource {
 public:
  // Also starts to listen.
  static Result<std::unique_ptr<NetProxy>> open(std::unique_ptr<net::Network> network,
                                                const std::vector<NetProxyLine>& lines = {});
  ~NetProxy() override;
  NetProxy(const NetProxy&) = delete;
  NetProxy& operator=(const NetProxy&) = delete;

  const std::vector<std::byte>& address() const { return address_; }
  const net::Network& network() const { return *network_; }
  // Registers the block with the network, until the end. To be called before connect().
  Status take(const DirectBlock& block);
  Status add_first(const std::vector<NetProxyLine>& lines);
  // Starts to open the links of all lines that send; peers open the others.
  Status connect(std::span<const std::vector<std::byte>> addresses);

  // Adds a line, after connect(). Its memory must outlive this object.
  void add(const NetProxyLine& line);
  Status open_added();  // opens the added lines

  bool progress();              // transfers what it can now; true if something moved
  bool is_open() const;         // all links are
  bool flushed() const;         // every slot that was filled has left this process
  std::uint64_t moved() const;  // slots that ever left or arrived
  std::uint64_t sent() const;   // bytes in those that left
  // The first line that ended, if one did: a peer that left or died is not always a fault.
  const Error* first_end(int* peer) const;
  // Ranks that will never receive a message that a kernel has sent: the line ended before.
  std::vector<int> cut_off() const;
  bool arm() override { return network_->arm(); }
  int poll_fd() const override { return network_->poll_fd(); }
  void close();  // sent slots still arrive

 private:
  struct Line;
  explicit NetProxy(std::unique_ptr<net::Network> network);
  Status open(const NetProxyLine& one);
  Status connect(Line& line);
  void adopt(std::unique_ptr<net::Link> link);

  std::unique_ptr<net::Network> network_;
  std::map<DirectBlock, net::MemoryKey> blocks_;
  std::vector<std::byte> address_;
  std::vector<std::vector<std::byte>> addresses_;  // one per rank, after connect()
  net::PollTurns turns_;
  // After the network, so links are destroyed first. A deque does not move its elements.
  std::deque<Line> lines_;
  std::vector<std::unique_ptr<net::Link>> early_;  // opened by peers before add() here
  std::mutex mutex_;                               // guards added_
  std::vector<NetProxyLine> added_;
  std::atomic<bool> any_added_{false};
};

}  // namespace rondo::gpu
