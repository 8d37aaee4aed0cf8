// SPDX-License-Identifier: Apache-2.0
// PluginLink: a net::Link over two connections of a plugin, one per direction.
//
// Each end listens, sends its handle on the side channel, connects to the handle of the other end
// and accepts; progress() retries until the plugin has made both connections. A message is a header
// and a body, each one message of the plugin. The receiver posts both in advance, so an RDMA plugin
// can write at once. Guarantees: those of net::Link. A message without the token of this
// end's greeting ends the link, so a stranger that finds the plugin's port delivers nothing.
// Messages sent before a close still arrive: the sender's farewell on the side channel gives their
// number. Plugin errors count one second later, because the side channel knows the cause
// (LinkWatch). Cost: one check of the oldest request per direction; 1.5 KiB of headers.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "transport/net/net.h"
#include "transport/plugin/connection.h"
#include "transport/plugin/sides.h"
#include "transport/streams/link_watch.h"
#include "transport/streams/side_channel.h"

namespace rondo::plugin {

// State that the links of a rank share.
struct Endpoint {
  Endpoint(const Plugin& p, std::unique_ptr<Context> c, const Device& d, net::Vigilance v)
      : plugin(p),
        context(std::move(c)),
        device(d),
        memory(d.registration_is_global),
        vigilance(v) {}

  const Plugin& plugin;
  const std::unique_ptr<Context> context;
  const Device device;
  PluginMemory memory;
  const net::Vigilance vigilance;
  int links = 0;           // links that have not ended
  bool has_moved = false;  // something moved since the last clear
};

class PluginLink final : public net::Link {
 public:
  // Connecting side: `connect` gets the blob of this side.
  using Connect = std::function<Result<std::unique_ptr<net::SideChannel>>(ByteSpan)>;
  static Result<std::unique_ptr<PluginLink>> connect(const net::LinkName& name, Endpoint& endpoint,
                                                     const Connect& connect);
  // Accepting side: the peer's blob must have arrived.
  static Result<std::unique_ptr<PluginLink>> accept(Endpoint& endpoint,
                                                    std::unique_ptr<net::SideChannel> channel);
  ~PluginLink() override { close(); }

  const net::LinkName& name() const override { return name_; }
  std::optional<net::Request> isend(const CallRecord& record, std::span<const std::byte> body,
                                    net::MemoryKey key, std::uint32_t tag = 0) override;
  std::optional<net::Request> irecv(CallRecord& record, std::span<std::byte> room,
                                    net::MemoryKey key) override;
  net::Completion test(net::Request request) const override;
  bool progress() override;
  net::LinkState state() const override { return state_; }
  const Error& error() const override { return *error_; }
  void close() override;

 private:
  PluginLink(const net::LinkName& name, int peer, Endpoint& endpoint);
  Status listen();
  Result<bool> open();
  Result<std::shared_ptr<Connection>> opened(Connection::Kind kind);
  bool follow_channel();
  bool settle(bool received);
  void fail_with(const std::string& why, net::LinkState state = net::LinkState::kEnded);

  const net::LinkName name_;
  const int peer_;
  Endpoint& endpoint_;
  std::unique_ptr<net::SideChannel> channel_;
  Greeting mine_;
  std::optional<Greeting> theirs_;
  std::unique_ptr<Listener> listener_;
  std::shared_ptr<Connection> out_, in_;
  SendSide send_;
  ReceiveSide receive_;
  net::LinkState state_ = net::LinkState::kOpening;
  net::LinkWatch watch_;
  std::optional<Error> error_;
};

}  // namespace rondo::plugin
