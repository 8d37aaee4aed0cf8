// VerbsNetwork: InfiniBand and RoCE as a net::Network: links of queue pairs on the port of this
// host that is nearest to the rank, among those that NCCL_IB_HCA admits.
//
// Guarantees: those of net::Network; the proof of the secret is the side channel's. Cost: open()
// some milliseconds; poll() is one system call; memory of Rondo's own comes from blocks of 4 MiB.
//
//   RONDO_TRY(auto network, VerbsNetwork::open(std::move(options)));
#pragma once

#include <memory>
#include <string_view>

#include "base/fd.h"
#include "transport/streams/side_channel.h"
#include "transport/verbs/choice.h"
#include "transport/verbs/ibverbs/adapter.h"

namespace rondo::verbs {

struct NetworkOptions : net::PortOptions {
  Options verbs{};
  int local_rank = 0;  // which of equally near ports
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
  bool takes(net::Memory::Kind kind) const override { return kind == net::Memory::Kind::kHost; }
  Result<net::MemoryKey> register_memory(const net::Memory& memory) override;
  void deregister_memory(net::MemoryKey key) override { adapter_->deregister_memory(key); }
  bool poll() override;
  bool arm() override { return adapter_->arm(); }
  int poll_fd() const override { return events_.get(); }

 private:
  VerbsNetwork(std::unique_ptr<Adapter> adapter, std::unique_ptr<net::SideChannels> channels,
               Fd events)
      : adapter_(std::move(adapter)), channels_(std::move(channels)), events_(std::move(events)) {}

  const std::unique_ptr<Adapter> adapter_;
  const std::unique_ptr<net::SideChannels> channels_;
  const Fd events_;  // epoll: of the side channels, the device, its completions
};

}  // namespace rondo::verbs
