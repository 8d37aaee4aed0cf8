// SPDX-License-Identifier: Apache-2.0
// UcxNetwork: a net::Network over the transports that UCX chooses (UCX_TLS, UCX_NET_DEVICES).
//
// Guarantees: those of net::Network. The side channel proves the secret, and each message carries a
// token that only the two ends of its link know. Cost: open() takes UCX some 10 ms; poll() costs
// one progress call of UCX's worker.
//
//   RONDO_TRY(auto network, UcxNetwork::open(std::move(options)));
#pragma once

#include <memory>
#include <string_view>

#include "base/fd.h"
#include "transport/ucx/ucp/ucx_link.h"

namespace rondo::ucx {

class UcxNetwork final : public net::Network {
 public:
  static Result<std::unique_ptr<UcxNetwork>> open(net::PortOptions options);

  static constexpr const char* kName = "UCX";
  std::string_view name() const override { return kName; }
  Result<std::vector<std::byte>> listen() override { return channels_->listen(); }
  Result<std::unique_ptr<net::Link>> connect(const net::LinkName& name,
                                             std::span<const std::byte> address) override;
  std::unique_ptr<net::Link> accept() override;
  Status accepting() const override { return channels_->standing(); }
  bool takes(net::Memory::Kind kind) const override;
  Result<net::MemoryKey> register_memory(const net::Memory& memory) override;
  void deregister_memory(net::MemoryKey key) override { hub_->memory.remove(key); }
  bool poll() override;
  bool arm() override { return hub_->worker->arm(); }
  int poll_fd() const override { return events_.get(); }

 private:
  UcxNetwork(std::unique_ptr<Hub> hub, std::unique_ptr<net::SideChannels> channels, Fd events)
      : hub_(std::move(hub)), channels_(std::move(channels)), events_(std::move(events)) {}

  const std::unique_ptr<Hub> hub_;
  const std::unique_ptr<net::SideChannels> channels_;
  const Fd events_;  // epoll of the side channels and the worker
};

}  // namespace rondo::ucx
