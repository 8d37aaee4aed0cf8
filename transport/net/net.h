// Network: what Rondo needs of a network, shaped like ncclNet (listen, connect, accept, register
// memory, isend, irecv, test, close), so that verbs, UCX and external plugins fit behind it.
//
// A Link joins two ranks and carries messages both ways; a message is a call record and a body.
// Guarantees: messages of one direction arrive whole, in order, and only into buffers that irecv
// posted: a receiver that posts nothing holds its sender back. Nothing here blocks, waits or locks;
// everything moves in progress() and poll(), on the thread of the rank that owns the network. Links
// exist only between holders of the same secret: sockets prove it, and what is no socket opens by a
// SideChannel (transport/streams), whose end is the peer's. Errors are values: a link that failed
// says so in error() and moves nothing more. Cost: progress() of a link that cannot move is a few
// loads; poll() is one system call however many links there are; no allocation once a link is open.
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

// Lanes keep traffic apart: a full lane never holds up another.
inline constexpr int kCollectiveLane = 0;  // and its second channel (trees), lane 1
inline constexpr int kPointToPointLane = 2;
inline constexpr int kControlLane = 3;  // small messages, read at once; a silent host is noticed
inline constexpr int kPutLane = 4;
inline constexpr int kLanes = 5;
// Lanes from kLanes on are what a network's owner makes of them (transport/proxy/net_proxy.h).
inline constexpr int kMaxLanes = 256;

// Which link of a communicator: made by rank `from`, accepted by rank `to`.
struct LinkName {
  std::int32_t from = -1;
  std::int32_t to = -1;
  std::int32_t lane = 0;
  friend bool operator==(const LinkName&, const LinkName&) = default;
};

enum class LinkState {
  kOpening,  // messages may be posted; they wait
  kOpen,
  kClosed,  // the peer closed it after its last message, which was delivered: see error()
  kEnded,   // it broke, or this side closed it: see error(). What had arrived was delivered.
};
inline bool is_over(LinkState state) { return state >= LinkState::kClosed; }

// One message or put on its way. Sends, receives and puts of a link are numbered separately, from
// 0.
struct Request {
  std::uint64_t number = 0;
  bool sending = false;
  bool putting = false;
};

struct Completion {
  // Sent: the body is the caller's again. Received: the owner of the memory sees all of it. Where
  // that takes more than the network's word for it (a GPU's memory that an adapter has written),
  // the link flushes before it says so.
  bool done = false;
  std::uint64_t bytes = 0;  // of the body, once done
  std::uint32_t tag = 0;    // of a received one
};

// Names memory that a network may read and write; 0 for networks that need none. One key does for
// all devices and links: an implementation registers the memory with each of them by itself, when
// the link opens or when it first moves a message there.
using MemoryKey = std::uint64_t;

// Memory of messages' bodies: the host's; a GPU's by its device address; or a GPU's by a dmabuf
// file, for networks whose adapter reads and writes it by itself (GPUDirect).
struct Memory {
  enum class Kind { kHost, kDevice, kDmabuf };
  std::span<std::byte> bytes;  // addresses as bodies name them
  Kind kind = Kind::kHost;
  int dmabuf = -1;           // kDmabuf: the file, the caller's,
  std::uint64_t offset = 0;  // and where in it `bytes` begin
  // What came in is seen by the GPU only after this; empty: it needs nothing. By the link, on the
  // thread that moves it. A network that flushes in a way of its own need not call it.
  std::function<Status()> flush = {};
  // The same, but the network is to see to it, by reading what it wrote: where it reads_back().
  bool read_back = false;
  // Holds words that somebody polls: what peers write into it becomes visible in the order in which
  // they wrote it, and after what they wrote before to other memory of this rank.
  bool ordered = false;
};

// Memory of the peer, as a link that has unpacked its key names it.
using RemoteKey = std::uint64_t;

// A write into the peer's memory, of which the peer's program knows nothing.
struct Put {
  std::span<const std::byte> body{};  // may be empty
  MemoryKey key = 0;                  // of the body
  RemoteKey to = 0;
  std::uint64_t offset = 0;  // where in that memory, which holds all of the body from there on
  // The word of 64 bits at word_offset of that memory, which is `ordered`, gets this value once the
  // body is there. A thread that loads it (acquire) sees this body and those of all earlier puts.
  std::optional<RemoteKey> word_in{};
  std::uint64_t word_offset = 0;  // a multiple of 8
  std::uint64_t word = 0;
};

class Link {
 public:
  virtual ~Link() = default;  // closes

  virtual const LinkName& name() const = 0;
  // Queues a message, with a word of the sender's choice; the body must stay as it is until test()
  // says done. Nothing: the queue is full, try again after progress().
  virtual std::optional<Request> isend(const CallRecord& record, std::span<const std::byte> body,
                                       MemoryKey key, std::uint32_t tag = 0) = 0;
  // Offers room for the next message. A longer message ends the link with an error.
  virtual std::optional<Request> irecv(CallRecord& record, std::span<std::byte> room,
                                       MemoryKey key) = 0;
  // Where the network puts(): a key that the peer's network has packed, until it is forgotten or
  // the link ends. A key that cannot be read is an error.
  virtual Result<RemoteKey> unpack_key(std::span<const std::byte> packed);
  virtual void forget_key(RemoteKey) {}
  // Queues a put. Puts of a link take effect in order, each at most once, whatever the peer does
  // meanwhile; a word of 64 bits changes as one. They have no order with messages. Status by
  // test(): the peer's memory has all of it, and the body is the caller's again. Nothing: the queue
  // is full.
  virtual std::optional<Request> iput(const Put&) { return std::nullopt; }
  // Only looks. Of the last kDepth requests of each kind.
  virtual Completion test(Request request) const = 0;
  // Moves what can move now; true if something did.
  virtual bool progress() = 0;
  virtual LinkState state() const = 0;
  // Once is_over(). kSystemError: the peer is there, but the network gives the two no way.
  virtual const Error& error() const = 0;
  virtual void close() = 0;  // what was sent still arrives; what was not is dropped

  static constexpr std::uint64_t kDepth = 64;  // messages queued in each direction at most
};

class Network : public WakeSource {
 public:
  ~Network() override = default;  // after its links

  virtual std::string_view name() const = 0;  // as NCCL_NET names it
  // Starts to accept. The bytes say to peers where; they hold addresses, no secret. Again: the
  // same.
  virtual Result<std::vector<std::byte>> listen() = 0;
  // Returns at once; the link opens by progress(). An address that cannot be read is an error.
  virtual Result<std::unique_ptr<Link>> connect(const LinkName& name,
                                                std::span<const std::byte> address) = 0;
  // The next link that a peer opened and proved its right to; null: none now.
  virtual std::unique_ptr<Link> accept() = 0;
  // Before anything else is registered: what kinds there is a use for.
  virtual bool takes(Memory::Kind kind) const = 0;
  // Its adapters' ports; none: it has no adapter, or none that is known.
  virtual std::vector<topology::NicName> adapters() const { return {}; }
  virtual Result<MemoryKey> register_memory(const Memory& memory) = 0;
  virtual void deregister_memory(MemoryKey key) = 0;
  virtual bool reads_back() const { return false; }  // Memory::read_back
  // Whether peers can write into memory of this rank while it does nothing (Link::iput).
  virtual bool puts() const { return false; }
  // What a peer needs for that: at most kMaxPackedKey bytes, as secret as what it names. Puts made
  // after deregister_memory() fail. Who has seen a put's word calls Memory::flush by itself.
  static constexpr std::size_t kMaxPackedKey = 256;
  virtual Result<std::vector<std::byte>> pack_key(MemoryKey) const {
    return fail(StatusCode::kInternalError, "network {} has no puts", name());
  }
  // Looks once which links can move. True if one may.
  virtual bool poll() = 0;
};

inline Result<RemoteKey> Link::unpack_key(std::span<const std::byte>) {
  return fail(StatusCode::kInternalError, "this network has no puts");
}

}  // namespace rondo::net
