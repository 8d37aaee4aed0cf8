// SPDX-License-Identifier: Apache-2.0
// VerbsNetwork: InfiniBand and RoCE as a net::Network: links of queue pairs on the ports of this
// host that are nearest to the rank, among those that NCCL_IB_HCA admits.
//
// Guarantees: those of net::Network; the side channel proves the secret. Cost: open() takes some
// milliseconds; poll() is one system call; Rondo's own registered memory is in blocks of 4 MiB.
//
//   RONDO_TRY(auto network, VerbsNetwork::open(std::move(options)));
#pragma once

#include <memory>
#include <string_view>

#include "base/fd.h"
#include "transport/streams/side_channel.h"
#include "transport/verbs/devices.h"
#include "transport/verbs/ibverbs/adapters.h"

namespace rondo::verbs {

struct NetworkOptions : net::PortOptions {
  Options verbs{};
  topology::NearNics near{};
  bool by_default = false;  // the user did not ask for RDMA: see worth_it()
};

class VerbsNetwork final : public net::Network {
 public:
  static Result<std::unique_ptr<VerbsNetwork>> open(NetworkOptions options);

  static constexpr const char* kName = "IB";
  std::string_view name() const override { return kName; }
  Result<std::vector<std::byte>> listen() override { return channels_->listen(); }
  Result<std::unique_ptr<net::Link>> connect(const net::LinkName& name,
                                             std::span<const std::byte> address) override;
  std::unique_ptr<net::Link> accept() override;
  Status accepting() const override { return channels_->standing(); }
  // True for kDmabuf if libibverbs can register it; only registering shows if the kernel can.
  bool takes(net::Memory::Kind kind) const override;
  std::vector<topology::NicName> adapters() const override;
  Result<net::MemoryKey> register_memory(const net::Memory& memory) override;
  void deregister_memory(net::MemoryKey key) override { adapters_->deregister_memory(key); }
  bool reads_back() const override { return true; }
  bool puts() const override { return true; }
  Result<std::vector<std::byte>> pack_key(net::MemoryKey key) const override;
  bool poll() override;
  bool arm() override { return adapters_->arm(); }
  int poll_fd() const override { return events_.get(); }

 private:
  VerbsNetwork(std::unique_ptr<Adapters> adapters, std::unique_ptr<net::SideChannels> channels,
               Fd events)
      : adapters_(std::move(adapters)),
        channels_(std::move(channels)),
        events_(std::move(events)) {}

  const std::unique_ptr<Adapters> adapters_;
  const std::unique_ptr<net::SideChannels> channels_;
  const Fd events_;  // epoll of the side channels, device events and completions
};

}  // namespace rondo::verbs
