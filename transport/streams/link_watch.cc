// SPDX-License-Identifier: Apache-2.0
#include "transport/streams/link_watch.h"

#include <algorithm>

#include "base/printable.h"

namespace rondo::net {
namespace {

// How long a network error waits for the side channel to show what happened to the peer, and how
// long a close without a farewell waits for further messages.
constexpr auto kGrace = std::chrono::seconds(1);

// A longer gap between two looks means that this process did not run. Only this much of it counts:
// what has arrived in the meantime is still to be read.
constexpr LinkWatch::Clock::duration kLongestGap = std::chrono::milliseconds(250);

}  // namespace

LinkWatch::Clock::duration LinkWatch::time_of_look() {
  const auto now = Clock::now();
  if (looked_at_) ran_ += std::min(now - *looked_at_, kLongestGap);
  looked_at_ = now;
  return ran_;
}

std::optional<LinkWatch::Verdict> LinkWatch::look(const SideChannel& channel, const Facts& facts) {
  if (channel.state() == SideChannel::State::kEnded)
    return Verdict{LinkState::kEnded, channel.why()};
  if (channel.state() == SideChannel::State::kClosed) return after_farewell(channel, facts);
  if (!trouble_) return std::nullopt;
  const auto now = time_of_look();
  if (!troubled_since_) troubled_since_ = now;
  if (trouble_->code == StatusCode::kRemoteError || now - *troubled_since_ > kGrace)
    return Verdict{LinkState::kEnded, trouble_->text};
  return std::nullopt;
}

// The rest of the peer's messages can still arrive, if buffers are posted for them.
std::optional<LinkWatch::Verdict> LinkWatch::after_farewell(const SideChannel& channel,
                                                            const Facts& facts) {
  const auto now = time_of_look();
  if (facts.has_just_come || !left_since_) left_since_ = now;
  const std::uint64_t sent = channel.farewell().value_or(0);
  if (sent == kGaveUp)
    return Verdict{LinkState::kEnded, "its end of the connection failed: see its log"};
  const bool awaits_more =
      channel.farewell() ? facts.received < sent : !trouble_ && now - *left_since_ < kGrace;
  if (!awaits_more || (!facts.offers_room && facts.has_unsent))
    return Verdict{LinkState::kClosed, channel.why()};
  if (trouble_) return Verdict{LinkState::kEnded, trouble_->text};
  if (facts.offers_room && now - *left_since_ > std::chrono::seconds(vigilance_.seconds))
    return Verdict{LinkState::kEnded,
                   fmt::format("it closed after {}, of which {} arrived by {}",
                               counted(sent, "message"), facts.received, network_)};
  return std::nullopt;
}

}  // namespace rondo::net
