// SPDX-License-Identifier: Apache-2.0
// LoopNetwork: a network for tests that exercises the same interface as RDMA networks.
//
// It connects ranks of one host, in one process or several. Links open through a side channel; keys
// of memory are checked; senders write directly into receivers' memory; the descriptor wakes only a
// thread that has armed it. It needs no hardware and no rights beyond those over the user's own
// processes.
#pragma once

#include "tests/support/loop/loop_link.h"

namespace rondo::test {

class LoopNetwork final : public net::Network {
 public:
  static Result<std::unique_ptr<LoopNetwork>> open(net::PortOptions options);

  static constexpr const char* kName = "Loop";
  std::string_view name() const override { return kName; }
  Result<std::vector<std::byte>> listen() override { return channels_->listen(); }
  Result<std::unique_ptr<net::Link>> connect(const net::LinkName& name,
                                             std::span<const std::byte> address) override;
  std::unique_ptr<net::Link> accept() override;
  Status accepting() const override { return channels_->standing(); }
  // An owner sees writes to device memory only after a flush. The host must be able to access the
  // address of device memory. It cannot for an emulated GPU, whose memory is passed as a file.
  bool takes(net::Memory::Kind) const override { return true; }
  Result<net::MemoryKey> register_memory(const net::Memory& memory) override;
  void deregister_memory(net::MemoryKey key) override { memory_.remove(key); }
  bool puts() const override { return true; }
  Result<std::vector<std::byte>> pack_key(net::MemoryKey key) const override {
    RONDO_TRY(const PackedRegion packed, memory_.pack(key));
    return packed.encode();
  }
  bool poll() override;
  bool arm() override { return queue_.arm(); }
  int poll_fd() const override { return events_.get(); }

  const LoopMemory& memory() const { return memory_; }

 private:
  LoopNetwork(std::unique_ptr<net::SideChannels> channels, CompletionQueue queue, Fd events)
      : channels_(std::move(channels)), queue_(std::move(queue)), events_(std::move(events)) {}

  const std::unique_ptr<net::SideChannels> channels_;
  LoopMemory memory_;
  CompletionQueue queue_;
  Fd events_;  // epoll over both
};

}  // namespace rondo::test
