// LinkEnd: when a link beside a side channel is over, and why: what the link, its network and the
// channel say of it, put together.
//
// The channel knows best what became of the peer, so a network's trouble is believed a second
// later, unless it is the peer's doing (kRemoteError). After a farewell the link waits for as many
// messages as were sent; after a close without one (the process ended), for a second in which
// nothing comes. Cost: a few loads while all is well.
//
//   LinkEnd end("UCX", vigilance);
//   if (receive.error()) end.trouble(*receive.error());
//   if (const auto verdict = end.look(channel, {.received = 3})) fail_with(verdict->why);
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "base/result.h"
#include "transport/net/net.h"
#include "transport/streams/side_channel.h"

namespace rondo::net {

class LinkEnd {
 public:
  // The farewell of an end that failed: nothing is to be waited for.
  static constexpr std::uint64_t kGaveUp = ~std::uint64_t{0};

  LinkEnd(std::string network, const Vigilance& vigilance)
      : network_(std::move(network)), vigilance_(vigilance) {}

  // Of the network; the first counts.
  void trouble(const Error& error) {
    if (!trouble_) trouble_ = error;
  }
  bool is_troubled() const { return trouble_.has_value(); }
  // By the network's own failure, not by what the peer did.
  bool is_of_network() const { return trouble_ && trouble_->code == StatusCode::kSystemError; }

  struct Facts {
    std::uint64_t received = 0;  // messages, in all
    bool has_just_come = false;  // one of them
    bool offers_room = false;    // for the next
    bool has_unsent = false;     // messages
  };
  struct Verdict {
    LinkState state;
    std::string why;
  };
  // Nothing: it is not over.
  std::optional<Verdict> look(const SideChannel& channel, const Facts& facts);

 private:
  using Clock = std::chrono::steady_clock;
  std::optional<Verdict> after_farewell(const SideChannel& channel, const Facts& facts);

  const std::string network_;
  const Vigilance vigilance_;
  std::optional<Error> trouble_;
  std::optional<Clock::time_point> troubled_since_, left_since_;
};

}  // namespace rondo::net
