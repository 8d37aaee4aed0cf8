// SPDX-License-Identifier: Apache-2.0
// LinkWatch: decides when a link beside a side channel has ended, and why, from the state of the
// link, its network and the channel.
//
// The channel knows best what happened to the peer. So a network error counts only one second
// later, unless the peer caused it (kRemoteError). After a farewell the link waits until all sent
// messages have arrived. After a close without a farewell (the process ended) it waits until no
// message arrives for one second. Times in which this process does not look, because it is stopped
// or the machine is busy, do not count. Cost: a few loads without errors.
//
//   LinkWatch watch("UCX", vigilance);
//   if (receive.error()) watch.trouble(*receive.error());
//   if (const auto verdict = watch.look(channel, {.received = 3})) fail_with(verdict->why);
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "base/result.h"
#include "transport/net/net.h"
#include "transport/streams/side_channel.h"

namespace rondo::net {

class LinkWatch {
 public:
  using Clock = std::chrono::steady_clock;

  // The farewell of an end that failed: no messages are pending.
  static constexpr std::uint64_t kGaveUp = ~std::uint64_t{0};

  LinkWatch(std::string network, const Vigilance& vigilance)
      : network_(std::move(network)), vigilance_(vigilance) {}

  // Reports a network error. The first one counts.
  void trouble(const Error& error) {
    if (!trouble_) trouble_ = error;
  }
  bool is_troubled() const { return trouble_.has_value(); }
  // The network itself failed; the peer did not cause it.
  bool is_of_network() const { return trouble_ && trouble_->code == StatusCode::kSystemError; }

  struct Facts {
    std::uint64_t received = 0;  // total messages
    bool has_just_come = false;  // a message arrived since the last call
    bool offers_room = false;    // a buffer is posted for the next message
    bool has_unsent = false;     // this side has unsent messages
  };
  struct Verdict {
    LinkState state;
    std::string why;
  };
  // Nullopt: the link has not ended.
  std::optional<Verdict> look(const SideChannel& channel, const Facts& facts);

 private:
  std::optional<Verdict> after_farewell(const SideChannel& channel, const Facts& facts);
  // The time since the first look at trouble or a farewell, without longer gaps between looks.
  Clock::duration time_of_look();

  const std::string network_;
  const Vigilance vigilance_;
  std::optional<Error> trouble_;
  std::optional<Clock::time_point> looked_at_;
  Clock::duration ran_{};
  std::optional<Clock::duration> troubled_since_, left_since_;
};

}  // namespace rondo::net
