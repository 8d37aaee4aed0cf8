// SPDX-License-Identifier: Apache-2.0
// Network: the interface to a network between hosts, shaped like ncclNet (listen, connect, accept,
// register memory, isend, irecv, test, close). Verbs, UCX and external plugins implement it.
//
// A Link carries messages between two ranks, both ways. A message is a call record and a body.
// Guarantees: messages of one direction arrive whole, in order, and only into buffers that the
// receiver posted with irecv; a receiver that posts no buffer stops the sender. Nothing here
// blocks, waits or locks; data moves only in progress() and poll(), on the thread of the rank that
// owns the network. Only holders of the same secret get a link: sockets prove it, and networks
// without sockets open each link with a SideChannel (transport/streams), which also reports the end
// of the peer. Errors are values: a failed link returns its error() and moves nothing more.
// Cost: progress() of a link that cannot move is a few loads. poll() is one system call for any
// number of links. An open link allocates nothing.
//
//   RONDO_TRY(Bytes here, network->listen());                       // give these bytes to peers
//   RONDO_TRY(auto link, network->connect({.from = 0, .to = 1, .lane = 0}, address_of_1));
//   std::unique_ptr<Link> other = network->accept();                // at rank 1; null: none yet
//   std::optional<Request> sending = link->isend(record, slot, key);
//   while (!link->test(*sending).done) { if (!link->progress()) network->poll(); }
//   // nothing moves: net::Sleeper arms the network, and sleeps on its poll_fd()
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/types.h"
#include "topology/graph/nearness.h"
#include "transport/net/sleeper.h"

namespace rondo::net {

// Lanes separate traffic: a full lane never blocks another one.
inline constexpr int kCollectiveLane = 0;  // lane 1: its second channel (trees)
inline constexpr int kPointToPointLane = 2;
inline constexpr int kControlLane = 3;  // small messages, read at once; detects a silent host
inline constexpr int kPutLane = 4;
inline constexpr int kLanes = 5;
// The owner of a network defines the lanes from kLanes on (transport/proxy/net_proxy.h).
inline constexpr int kMaxLanes = 256;

// Identifies a link of a communicator: rank `from` connects, rank `to` accepts.
struct LinkName {
  std::int32_t from = -1;
  std::int32_t to = -1;
  std::int32_t lane = 0;
  friend bool operator==(const LinkName&, const LinkName&) = default;
};

enum class LinkState {
  kOpening,  // messages can be posted already; they wait
  kOpen,
  kClosed,  // the peer closed it; all its messages were delivered: see error()
  kEnded,   // it broke, or this side closed it: see error(). Arrived messages were delivered.
};
inline bool is_over(LinkState state) { return state >= LinkState::kClosed; }

// One message or put in flight. A link numbers its sends, receives and puts separately, from 0.
struct Request {
  std::uint64_t number = 0;
  bool sending = false;
  bool putting = false;
};

struct Completion {
  // Sent: the caller may reuse the body. Received: the owner of the memory sees the whole body; the
  // link has flushed if a completion alone does not guarantee that (GPU memory).
  bool done = false;
  std::uint64_t bytes = 0;  // size of the body, valid once done
  std::uint32_t tag = 0;    // tag of a received message
};

// Identifies memory that a network may read and write; 0 for networks that need no registration.
// One key is valid for all devices and links: the implementation registers the memory with each of
// them when the link opens or at the first message there.
using MemoryKey = std::uint64_t;

// Memory of message bodies: on the host, on a GPU by device address, or on a GPU by dmabuf file.
// The last two are for networks whose adapter accesses GPU memory itself (GPUDirect).
struct Memory {
  enum class Kind { kHost, kDevice, kDmabuf };
  std::span<std::byte> bytes;  // addresses that bodies use
  Kind kind = Kind::kHost;
  int dmabuf = -1;           // kDmabuf: the file, owned by the caller
  std::uint64_t offset = 0;  // kDmabuf: position of `bytes` in the file
  // The GPU sees received data only after this call; empty: no flush needed. The link calls it, on
  // the thread that moves the link. A network with its own way to flush does not have to call it.
  std::function<Status()> flush = {};
  // The network itself must flush, by reading what it wrote. Only where it reads_back().
  bool read_back = false;
  // The memory holds words that a thread polls. Writes of a peer into it become visible in the
  // order of writing, and after the peer's earlier writes to other memory of this rank.
  bool ordered = false;
};

// Identifies memory of the peer on the link that unpacked the key.
using RemoteKey = std::uint64_t;

// A write into the peer's memory, without any action of the peer's program.
struct Put {
  std::span<const std::byte> body{};  // may be empty
  MemoryKey key = 0;                  // key of the body
  RemoteKey to = 0;
  std::uint64_t offset = 0;  // in `to`; the whole body must fit behind it
  // Optional: the 64-bit word at word_offset of this `ordered` memory gets the value `word` once
  // the body has arrived. A thread that loads it (acquire) sees this body and those of all earlier
  // puts.
  std::optional<RemoteKey> word_in{};
  std::uint64_t word_offset = 0;  // a multiple of 8
  std::uint64_t word = 0;
};

// What a link has survived.
struct LinkLosses {
  std::uint64_t rails = 0;  // that are gone
  std::uint64_t parts = 0;  // of messages that were sent again over other rails
};

// What has gone over one port of a link: bodies of messages. Only grows.
struct RailTraffic {
  std::string port{};  // "mlx5_0:1", "eth0"; empty: unknown
  std::uint64_t sent_bytes = 0, received_bytes = 0;
  std::uint64_t busy_ns = 0;  // with bodies that the peer's port has not acknowledged; 0: unknown
  std::uint64_t parts = 0;    // of messages that were acknowledged; 0: unknown
};

class Link {
 public:
  virtual ~Link() = default;  // closes

  virtual const LinkName& name() const = 0;
  // Queues a message. The sender chooses `tag`. The body must not change until test() returns done.
  // Nullopt: the queue is full, try again after progress().
  virtual std::optional<Request> isend(const CallRecord& record, std::span<const std::byte> body,
                                       MemoryKey key, std::uint32_t tag = 0) = 0;
  // Posts a buffer for the next message. A longer message ends the link with an error.
  virtual std::optional<Request> irecv(CallRecord& record, std::span<std::byte> room,
                                       MemoryKey key) = 0;
  // Only where the network puts(). Unpacks a key that the peer's network packed; valid until
  // forget_key() or the end of the link. A malformed key is an error.
  virtual Result<RemoteKey> unpack_key(std::span<const std::byte> packed);
  virtual void forget_key(RemoteKey) {}
  // Queues a put. Puts of a link take effect in order, each at most once, whatever the peer does
  // meanwhile. The 64-bit word changes atomically. Puts are not ordered with messages. test()
  // returns done when the peer's memory has the whole put; then the caller may reuse the body.
  // Nullopt: the queue is full.
  virtual std::optional<Request> iput(const Put&) { return std::nullopt; }
  // Moves nothing. Valid for the last kDepth requests of each kind.
  virtual Completion test(Request request) const = 0;
  // Moves what can move now; true if something moved.
  virtual bool progress() = 0;
  virtual LinkState state() const = 0;
  virtual LinkLosses losses() const { return {}; }
  // One for each port, in an order that does not change; empty: the link does not count.
  virtual std::span<const RailTraffic> rails() const { return {}; }
  // The one port of a link that does not count; empty: unknown.
  virtual std::string_view port() const { return {}; }
  // Valid once is_over(). kSystemError: the peer is alive, but the network cannot connect the two.
  virtual const Error& error() const = 0;
  virtual void close() = 0;  // sent messages still arrive; unsent ones are dropped

  static constexpr std::uint64_t kDepth = 64;  // max queued messages per direction
};

class Network : public WakeSource {
 public:
  ~Network() override = default;  // its links must be destroyed first

  virtual std::string_view name() const = 0;  // its name in NCCL_NET
  // Starts to accept. Returns the addresses for peers, without any secret. A second call returns
  // the same bytes.
  virtual Result<std::vector<std::byte>> listen() = 0;
  // Returns at once; progress() opens the link. A malformed address is an error.
  virtual Result<std::unique_ptr<Link>> connect(const LinkName& name,
                                                std::span<const std::byte> address) = 0;
  // The next link whose peer has proved the secret; null: none now.
  virtual std::unique_ptr<Link> accept() = 0;
  // An error if peers cannot be accepted now, such as for lack of descriptors.
  virtual Status accepting() const { return ok_status(); }
  // Whether the network can use this kind. Ask before registering memory of it.
  virtual bool takes(Memory::Kind kind) const = 0;
  // Ports of its adapters; empty: no adapter, or unknown.
  virtual std::vector<topology::NicName> adapters() const { return {}; }
  virtual Result<MemoryKey> register_memory(const Memory& memory) = 0;
  virtual void deregister_memory(MemoryKey key) = 0;
  virtual bool reads_back() const { return false; }  // Memory::read_back
  // Whether peers can write into memory of this rank while it does nothing (Link::iput).
  virtual bool puts() const { return false; }
  // The key that a peer needs for puts: at most kMaxPackedKey bytes, as secret as the memory
  // itself. Puts after deregister_memory() fail. The thread that sees the word of a put must call
  // Memory::flush itself.
  static constexpr std::size_t kMaxPackedKey = 256;
  virtual Result<std::vector<std::byte>> pack_key(MemoryKey) const {
    return fail(StatusCode::kInternalError, "network {} has no puts", name());
  }
  // Checks once which links can move. True if one possibly can.
  virtual bool poll() = 0;
};

inline Result<RemoteKey> Link::unpack_key(std::span<const std::byte>) {
  return fail(StatusCode::kInternalError, "this network has no puts");
}

}  // namespace rondo::net
