// LoopNetwork: a network for tests, which proves the seam that RDMA networks stand behind.
//
// Ranks of one host, in one process or several. Links open by a side channel; memory has keys that
// are checked; senders write into receivers' memory by themselves; the descriptor wakes only who
// has armed it. It needs no hardware and no rights beyond those over one's own processes.
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
  // Memory of devices is what its owner sees after a flush alone; an address of it is one that the
  // host can follow, which an emulated GPU's is not: its memory comes as a file.
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
  Fd events_;  // epoll: of both
};

}  // namespace rondo::test
