// NetProxy: carries the slots of one rank's connections to ranks of other hosts.
//
// A sending kernel fills slots of a bounce buffer (connection_layout.h) and advances its tail, in
// pinned memory; the net proxy sends each slot as a message over a link of its own, and advances
// head when it has left. On the other side a net proxy receives into free slots and advances the
// tail that the receiving kernel waits for. No credit travels: a receiver offers free slots only,
// and the network's own flow control holds back the sender. Nothing per call is kept, so replays of
// graphs need no host code. Words are in pinned memory; slots are there, too, or in the GPU's
// (direct_memory.h), where the network's adapters reach that. Guarantees: slots of a line arrive
// whole and in order; lines never hold each other up; nothing blocks. One thread at a time, but for
// add(): lines may come later, on either side first. Cost: progress() of a line that cannot move is
// a few loads; nothing is allocated once all links are open.
//
//   RONDO_TRY(auto net_proxy, NetProxy::open(std::move(network), {lines}));
//   RONDO_CHECK_OK(net_proxy->connect(addresses)); // every rank's address() net_proxy->add(line);
//   // any thread; open_added() opens its link while (...) { ...open_added()... if
//   (!net_proxy->progress()) ...net::Sleeper... }
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
#include "transport/net/poll_turns.h"
#include "transport/net/slot_channel.h"
#include "transport/proxy/direct_memory.h"

namespace rondo::gpu {

// Channels that there may be, of connections and of messages between two ranks.
inline constexpr int kMaxProxyChannels = 64, kMaxProxyMessageChannels = 8;
// The link for a connection on a channel and a lane of its own (trees have two); for a channel of
// messages.
net::LinkName net_proxy_link(int from, int to, int lane, int channel);
net::LinkName net_proxy_message_link(int from, int to, int channel);

// One connection: `end` is this side of it. A sender's `used` says how many bytes a slot holds.
struct NetProxyLine {
  net::LinkName name;
  Connection end;
  bool sends = false;
  DirectBlock block = {};  // in which the slots lie; null: they are memory of the host
};

class NetProxy final : public net::WakeSource {
 public:
  // Listens.
  static Result<std::unique_ptr<NetProxy>> open(std::unique_ptr<net::Network> network,
                                                const std::vector<NetProxyLine>& lines = {});
  ~NetProxy() override;
  NetProxy(const NetProxy&) = delete;
  NetProxy& operator=(const NetProxy&) = delete;

  const std::vector<std::byte>& address() const { return address_; }
  const net::Network& network() const { return *network_; }
  // Before connect(): whether the network takes this memory, which it then has until the end.
  Status take(const DirectBlock& block);
  Status add_first(const std::vector<NetProxyLine>& lines);
  // Begins to open the links of all lines that send; the others are their peers'.
  Status connect(std::span<const std::vector<std::byte>> addresses);

  // One more line, once connect() has been called; its memory must outlive this.
  void add(const NetProxyLine& line);
  Status open_added();  // those that were added

  bool progress();              // moves what can move now; true if something did
  bool is_open() const;         // all links are
  bool flushed() const;         // every slot that was filled has left this process
  std::uint64_t moved() const;  // slots that ever left or arrived
  std::uint64_t sent() const;   // bytes in those that left
  // The first line that ended, if one did: a peer that left or died is not always a fault.
  const Error* first_end(int* peer) const;
  // Who will never get a message that a kernel has sent it: its line has ended before.
  std::vector<int> cut_off() const;
  bool arm() override { return network_->arm(); }
  int poll_fd() const override { return network_->poll_fd(); }
  void close();  // what was sent still arrives

 private:
  struct Line;
  explicit NetProxy(std::unique_ptr<net::Network> network);
  Status open(const NetProxyLine& one);
  Status connect(Line& line);
  void adopt(std::unique_ptr<net::Link> link);

  std::unique_ptr<net::Network> network_;
  std::map<DirectBlock, net::MemoryKey> blocks_;
  std::vector<std::byte> address_;
  std::vector<std::vector<std::byte>> addresses_;  // of all ranks, once connected
  net::PollTurns turns_;
  // After the network: links go first. A deque's elements stay where they are.
  std::deque<Line> lines_;
  std::vector<std::unique_ptr<net::Link>> early_;  // opened by peers; their lines are still to come
  std::mutex mutex_;                               // of added_
  std::vector<NetProxyLine> added_;
  std::atomic<bool> any_added_{false};
};

}  // namespace rondo::gpu
