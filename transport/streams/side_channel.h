// SPDX-License-Identifier: Apache-2.0
// SideChannel: opens a link between two ranks for networks that have no sockets of their own.
//
// It is a proven, encrypted stream beside the link. Each side sends one blob on it (its queue
// pairs, a UCX address, a plugin's handle), and then nothing more. The stream stays open as long as
// the link; its close or break means the end of the peer. Where messages of the network can still
// be in flight at that time, a side that leaves sends a farewell, the number of its sent messages,
// before it closes. So every network gets the proof of the secret, the protection against
// strangers, and the detection of a dead host.
// Guarantees: a blob of at most kMaxBlob bytes arrives whole, or the channel ends. Any further byte
// ends the channel. The connector's blob leaves with its proof and must arrive within Vigilance.
// The acceptor's blob may take as long as the caller allows, because a peer may be computing.
// Nothing here waits. Cost: one descriptor; an idle open channel costs two loads.
//
//   RONDO_TRY(auto channels, SideChannels::open(options));      // one per network
//   RONDO_TRY(auto channel, channels->connect({0, 1, 0}, address_of_1, my_queue_pair));
//   ...at rank 1:  if (auto channel = channels->accept()) {     // its peer's blob has arrived
//                    open_queue_pair(channel->blob());  channel->answer(my_queue_pair); }
//   while (channel->progress(), channel->state() == SideChannel::State::kOpening) channels->poll();
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "transport/streams/stream_port.h"

namespace rondo::net {

class SideChannel {
 public:
  static constexpr std::size_t kMaxBlob = 4096;
  enum class State {
    kOpening,  // the peer's blob has not arrived
    kOpen,     // blob() is valid
    kClosed,   // the peer closed it after its blob: the peer has sent all its messages
    kEnded,    // it broke, or the peer violated the protocol: why()
  };

  // The connecting side. The blob is the connector's greeting.
  SideChannel(const LinkName& name, const Vigilance& vigilance,
              std::unique_ptr<Connector> connector, bool farewells = false);
  // The accepting side, for a peer that has proved the secret.
  SideChannel(const LinkName& name, const Vigilance& vigilance, std::string from,
              std::unique_ptr<Stream> stream, bool farewells = false);
  ~SideChannel() { close(); }
  SideChannel(const SideChannel&) = delete;
  SideChannel& operator=(const SideChannel&) = delete;

  const LinkName& name() const { return name_; }
  bool progress();  // true if something moved
  State state() const { return state_; }
  ByteSpan blob() const { return ByteSpan(received_).subspan(kHeader); }
  const std::string& why() const { return why_; }
  const std::string& address() const { return address_; }  // of the peer
  // Sends the acceptor's blob. Call it once. False: longer than kMaxBlob.
  bool answer(ByteSpan blob);
  void close();  // the peer first receives all sent bytes, then sees the end
  // Sends the farewell (`sent` messages; best effort: what the socket takes at once), and closes.
  void leave(std::uint64_t sent);
  // The farewell of the peer; nullopt: none (the peer was killed, or is still connected).
  std::optional<std::uint64_t> farewell() const;

  // The bytes of a blob on the stream: its length, then the blob.
  static Bytes frame(ByteSpan blob);

 private:
  static constexpr std::size_t kHeader = 4;
  bool connect();
  bool send();
  bool receive();
  bool listen_for_end();
  void end(State state, std::string why);

  const LinkName name_;
  const Vigilance vigilance_;
  std::string address_;
  std::unique_ptr<Connector> connector_;
  std::unique_ptr<Stream> stream_;
  State state_ = State::kOpening;
  std::string why_;
  std::chrono::steady_clock::time_point proven_at_{};
  const bool accepted_;
  Bytes received_;          // the peer's frame, sized as far as its length is known
  std::size_t filled_ = 0;  // bytes of received_ that have arrived
  Bytes unsent_;            // unsent rest of this side's frame and farewell
  Bytes farewell_;          // buffer for the peer's farewell; empty: this network has none
  std::size_t farewell_filled_ = 0;
};

class SideChannels {
 public:
  // options.network: the name of the network. farewells: whether both sides send a farewell.
  static Result<std::unique_ptr<SideChannels>> open(PortOptions options, bool farewells = false);

  Result<std::vector<std::byte>> listen() { return port_->listen(); }
  // kInvalidArgument: the blob is longer than SideChannel::kMaxBlob.
  Result<std::unique_ptr<SideChannel>> connect(const LinkName& name, ByteSpan address,
                                               ByteSpan blob);
  // The next channel with a proven peer whose blob has arrived; null: none now.
  std::unique_ptr<SideChannel> accept();
  Status standing() const { return port_->standing(); }  // an error: peers cannot be accepted
  bool poll() { return port_->poll(); }
  int poll_fd() const { return port_->poll_fd(); }

 private:
  SideChannels(std::unique_ptr<StreamPort> port, bool farewells)
      : port_(std::move(port)), farewells_(farewells) {}

  const std::unique_ptr<StreamPort> port_;
  const bool farewells_;
  std::vector<std::unique_ptr<SideChannel>> unread_;  // accepted; the blob has not arrived
};

}  // namespace rondo::net
