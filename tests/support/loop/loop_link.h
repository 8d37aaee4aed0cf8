// SPDX-License-Identifier: Apache-2.0
// LoopLink: a link of the loop network. It uses one-sided writes, like an RDMA link.
//
// For each posted receive, the receiver writes a credit (the address for the message) into a ring
// at the sender. The sender writes the body there, then the message's header into a ring at the
// receiver, and rings the receiver's completion queue (the "immediate"). Writes need no action of
// the other side. So a receiver that posts nothing stops its sender without using memory.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <optional>

#include "tests/support/loop/completion_queue.h"
#include "tests/support/loop/loop_memory.h"
#include "transport/streams/side_channel.h"

namespace rondo::test {

// The address where the peer of a link writes, and how it rings. This is the blob of the side
// channel.
struct LoopSeat {
  std::int32_t pid = 0;
  std::int32_t rings = -1;  // descriptors of memory files
  std::int32_t queue = -1;
  std::string bell;  // the address of its doorbell

  Bytes encode() const;
  static std::optional<LoopSeat> decode(ByteSpan bytes);
};

class LoopLink final : public net::Link {
 public:
  // Connects to a peer; takes the blob of this side.
  using Connect = std::function<Result<std::unique_ptr<net::SideChannel>>(ByteSpan)>;
  static Result<std::unique_ptr<LoopLink>> connect(const net::LinkName& name, LoopMemory& memory,
                                                   CompletionQueue& queue, const Connect& connect);
  static Result<std::unique_ptr<LoopLink>> accept(LoopMemory& memory, CompletionQueue& queue,
                                                  std::unique_ptr<net::SideChannel> channel);

  const net::LinkName& name() const override { return name_; }
  std::optional<net::Request> isend(const CallRecord& record, std::span<const std::byte> body,
                                    net::MemoryKey key, std::uint32_t tag = 0) override;
  std::optional<net::Request> irecv(CallRecord& record, std::span<std::byte> room,
                                    net::MemoryKey key) override;
  Result<net::RemoteKey> unpack_key(std::span<const std::byte> packed) override;
  void forget_key(net::RemoteKey key) override { regions_.erase(key); }
  std::optional<net::Request> iput(const net::Put& put) override;
  net::Completion test(net::Request request) const override;
  bool progress() override;
  net::LinkState state() const override { return state_; }
  const Error& error() const override { return *error_; }
  void close() override;

 private:
  struct Rings;
  struct Outgoing {
    CallRecord record;
    std::span<const std::byte> body;
    std::uint32_t tag;
    net::MemoryKey key;
  };
  struct Incoming {
    CallRecord* record;
    std::uint64_t room, offset;
    net::MemoryKey key;
    std::uint64_t bytes;
    std::uint32_t tag;
  };

  LoopLink(const net::LinkName& name, LoopMemory& memory, CompletionQueue& queue, SharedFile rings);
  LoopSeat seat() const;
  void open();
  bool follow_channel();
  bool send();
  bool receive();
  bool offer();
  bool put();
  void fail_with(const std::string& why, net::LinkState state = net::LinkState::kEnded);

  const net::LinkName name_;
  LoopMemory& memory_;
  CompletionQueue& queue_;
  int peer_;
  SharedFile rings_;  // written by the peer
  std::unique_ptr<net::SideChannel> channel_;
  LoopSeat theirs_;
  std::optional<SharedFile> their_rings_;
  std::optional<RemoteQueue> their_queue_;
  RemoteMemory their_memory_;
  net::LinkState state_ = net::LinkState::kOpening;
  std::optional<Error> error_;
  std::map<net::RemoteKey, PackedRegion> regions_;  // the peer's regions, as targets of puts
  net::RemoteKey last_region_ = 0;
  std::array<net::Put, kDepth> puts_;
  std::uint64_t asked_ = 0, put_ = 0;
  std::array<Outgoing, kDepth> outgoing_;
  std::array<Incoming, kDepth> incoming_;
  std::uint64_t pushed_ = 0, sent_ = 0;
  std::uint64_t posted_ = 0, offered_ = 0, received_ = 0;
};

}  // namespace rondo::test
