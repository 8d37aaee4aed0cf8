// SideChannel: how a network that has no sockets of its own opens a link between two ranks.
//
// A proven, encrypted stream beside the link: each side says one blob on it (its queue pairs, a UCX
// address, a plugin's handle), and then nothing more: it stays for the link's life, and its close
// or its break is the peer's end. Where a network's own messages may still be on their way then, a
// side that leaves says how many it has sent (a farewell), as the last word before its close. So
// every network inherits the proof of the secret, the door that strangers stand before, and the
// notice of a host that died. Guarantees: a blob arrives whole or the channel ends; at most
// kMaxBlob bytes; anything beyond it ends the channel. The connector's blob leaves with its proof
// and has to arrive within Vigilance; the acceptor's is waited for as long as the caller likes, as
// any peer that computes. Nothing here waits. Cost: a descriptor; an open channel that is silent
// costs two loads.
//
//   RONDO_TRY(auto channels, SideChannels::open(options));      // one a network
//   RONDO_TRY(auto channel, channels->connect({0, 1, 0}, address_of_1, my_queue_pair));
//   ...at rank 1:  if (auto channel = channels->accept()) {     // its peer's blob is there
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
    kOpening,  // the peer's blob is not there
    kOpen,     // blob()
    kClosed,   // the peer closed it after its blob: what it sent over the network has been sent
    kEnded,    // it broke, or the peer said what it may not: why()
  };

  // To the peer; the blob is the connector's greeting.
  SideChannel(const LinkName& name, const Vigilance& vigilance,
              std::unique_ptr<Connector> connector, bool farewells = false);
  // From one that has proved itself.
  SideChannel(const LinkName& name, const Vigilance& vigilance, std::string from,
              std::unique_ptr<Stream> stream, bool farewells = false);
  ~SideChannel() { close(); }
  SideChannel(const SideChannel&) = delete;
  SideChannel& operator=(const SideChannel&) = delete;

  const LinkName& name() const { return name_; }
  bool progress();  // true if something moved
  State state() const { return state_; }
  ByteSpan blob() const { return ByteSpan(heard_).subspan(kHeader); }
  const std::string& why() const { return why_; }
  const std::string& address() const { return address_; }  // of the peer
  // An acceptor's blob, once. False: it is longer than kMaxBlob.
  bool answer(ByteSpan blob);
  void close();  // the peer sees the end, and whatever was said before
  // Says how many messages have left this side, as far as the socket takes it at once, and closes.
  void leave(std::uint64_t sent);
  // What the peer said as it left; nothing: it did not (it was killed, or is still there).
  std::optional<std::uint64_t> farewell() const;

  // What a side says: the length, then the blob.
  static Bytes frame(ByteSpan blob);

 private:
  static constexpr std::size_t kHeader = 4;
  bool connect();
  bool say();
  bool hear();
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
  Bytes heard_;             // the peer's frame, as long as it is known to be
  std::size_t filled_ = 0;  // of it
  Bytes unsaid_;            // of this side's frame, and of its farewell
  Bytes farewell_;          // of the peer, as long as it is; empty: this network has none
  std::size_t farewell_filled_ = 0;
};

class SideChannels {
 public:
  // options.network: the name of the network that they belong to. farewells: whether its sides say
  // how many messages they have sent when they leave.
  static Result<std::unique_ptr<SideChannels>> open(PortOptions options, bool farewells = false);

  Result<std::vector<std::byte>> listen() { return port_->listen(); }
  // kInvalidArgument: the blob is longer than SideChannel::kMaxBlob.
  Result<std::unique_ptr<SideChannel>> connect(const LinkName& name, ByteSpan address,
                                               ByteSpan blob);
  // The next one that a peer opened, proved, and said its blob on; null: none now.
  std::unique_ptr<SideChannel> accept();
  bool poll() { return port_->poll(); }
  int poll_fd() const { return port_->poll_fd(); }

 private:
  SideChannels(std::unique_ptr<StreamPort> port, bool farewells)
      : port_(std::move(port)), farewells_(farewells) {}

  const std::unique_ptr<StreamPort> port_;
  const bool farewells_;
  std::vector<std::unique_ptr<SideChannel>> unheard_;  // accepted, their blobs not there
};

}  // namespace rondo::net
