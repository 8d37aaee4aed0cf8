// SPDX-License-Identifier: Apache-2.0
// PluginNetwork: one device of an NCCL network plugin as a net::Network.
//
// Guarantees: those of net::Network. The side channel proves the secret; messages on the plugin's
// connections carry tokens that only both ends know. A plugin has no descriptor to sleep on, so
// while links exist a timer makes poll_fd() readable: 20 us after something moved, then up to 1 ms.
// Cost: open() takes the plugin's start time; a sleep costs one more system call.
//
//   if (auto found = plugin::find(env::get_string("NCCL_NET_PLUGIN")))
//     RONDO_TRY(auto network, PluginNetwork::open(**found->plugin, std::move(options), near));
#pragma once

#include <chrono>
#include <memory>
#include <string_view>

#include "base/fd.h"
#include "topology/graph/nearness.h"
#include "transport/plugin/plugin_link.h"

namespace rondo::plugin {

class PluginNetwork final : public net::Network {
 public:
  static Result<std::unique_ptr<PluginNetwork>> open(const Plugin& plugin, net::PortOptions options,
                                                     const topology::NearNics& near = {});

  std::string_view name() const override { return endpoint_->plugin.name(); }
  Result<std::vector<std::byte>> listen() override { return channels_->listen(); }
  Result<std::unique_ptr<net::Link>> connect(const net::LinkName& name,
                                             std::span<const std::byte> address) override;
  std::unique_ptr<net::Link> accept() override;
  Status accepting() const override { return channels_->standing(); }
  bool takes(net::Memory::Kind kind) const override;
  std::vector<topology::NicName> adapters() const override;
  Result<net::MemoryKey> register_memory(const net::Memory& memory) override;
  void deregister_memory(net::MemoryKey key) override { endpoint_->memory.remove(key); }
  bool poll() override;
  bool arm() override;
  int poll_fd() const override { return events_.get(); }

 private:
  PluginNetwork(std::unique_ptr<Endpoint> endpoint, std::unique_ptr<net::SideChannels> channels,
                Fd timer, Fd events)
      : endpoint_(std::move(endpoint)),
        channels_(std::move(channels)),
        timer_(std::move(timer)),
        events_(std::move(events)) {}

  const std::unique_ptr<Endpoint> endpoint_;
  const std::unique_ptr<net::SideChannels> channels_;
  const Fd timer_;
  const Fd events_;  // epoll: the side channels and the timer
  bool is_timed_ = false;
  std::chrono::nanoseconds nap_{0};  // current period of the timer
};

}  // namespace rondo::plugin
