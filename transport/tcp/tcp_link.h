// SPDX-License-Identifier: Apache-2.0
// TcpLink: a net::Link over one or more TCP sockets.
//
// The connecting side starts with a Connector; messages posted before the link is open wait. After
// a failure of one direction the other one continues, so messages that the peer sent before it left
// are still delivered.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "transport/net/net.h"
#include "transport/streams/connector.h"
#include "transport/streams/stream.h"
#include "transport/tcp/sides.h"

namespace rondo::tcp {

class TcpLink final : public net::Link {
 public:
  TcpLink(const net::LinkName& name, const net::Vigilance& vigilance,
          std::unique_ptr<net::Connector> connector);
  TcpLink(const net::LinkName& name, const net::Vigilance& vigilance, std::string peer_address,
          std::vector<std::unique_ptr<net::Stream>> streams);
  ~TcpLink() override { end_streams(); }

  const net::LinkName& name() const override { return name_; }
  std::optional<net::Request> isend(const CallRecord& record, std::span<const std::byte> body,
                                    net::MemoryKey key, std::uint32_t tag = 0) override;
  std::optional<net::Request> irecv(CallRecord& record, std::span<std::byte> room,
                                    net::MemoryKey key) override;
  net::Completion test(net::Request request) const override;
  bool progress() override;
  net::LinkState state() const override;
  std::string_view port() const override { return port_; }
  const Error& error() const override { return *error_; }
  void close() override;

 private:
  void end_streams();
  void open(std::vector<std::unique_ptr<net::Stream>> streams);
  void fail_with(const std::string& why);

  net::LinkName name_;
  net::Vigilance vigilance_;
  int peer_;
  std::string peer_address_;
  std::string port_;  // the interface of its sockets
  std::unique_ptr<net::Connector> connector_;
  std::vector<std::unique_ptr<net::Stream>> streams_;
  SendSide sending_;
  ReceiveSide receiving_;
  std::optional<Error> error_;
  bool closed_by_peer_ = false;
};

}  // namespace rondo::tcp
