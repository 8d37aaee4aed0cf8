// SPDX-License-Identifier: Apache-2.0
#include "transport/verbs/ibverbs/verbs_link.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/log.h"

namespace rondo::verbs {

using net::LinkState;
using net::SideChannel;

VerbsLink::VerbsLink(const net::LinkName& name, int own, int peer, Adapters& adapters)
    : name_(name), own_(own), peer_(peer), adapters_(adapters), receiving_(adapters) {
  for (std::size_t i = 0; i < adapters.size(); ++i)
    traffic_.push_back({.port = adapters.at(i).device().port().name()});
}

std::span<const net::RailTraffic> VerbsLink::rails() const {
  for (const auto& rail : rails_) {
    const net::RailTraffic& now = rail->traffic();
    net::RailTraffic& of = traffic_[rail->port()];
    of.sent_bytes = now.sent_bytes;
    of.received_bytes = now.received_bytes;
    of.busy_ns = now.busy_ns;
    of.parts = now.parts;
  }
  return traffic_;
}

Result<std::unique_ptr<VerbsLink>> VerbsLink::connect(const net::LinkName& name, Adapters& adapters,
                                                      int pairs, const Connect& connect) {
  std::unique_ptr<VerbsLink> made(new VerbsLink(name, name.from, name.to, adapters));
  const auto maximum = kMaxPairs / adapters.size();
  const auto each = std::min(static_cast<std::size_t>(pairs), maximum);
  LinkEnd own;
  for (std::size_t i = 0; i < adapters.size(); ++i) {
    RONDO_TRY(auto rail, Rail::make(*made, adapters.at(i), i, each));
    const int number = adapters.at(i).device().port().rail;
    own.rails.push_back(rail->end(static_cast<std::uint8_t>(number)));
    made->rails_.push_back(std::move(rail));
  }
  RONDO_TRY(made->channel_, connect(serialize(own)));
  return made;
}

Result<std::unique_ptr<VerbsLink>> VerbsLink::accept(Adapters& adapters,
                                                     std::unique_ptr<SideChannel> channel) {
  const net::LinkName name = channel->name();
  std::unique_ptr<VerbsLink> made(new VerbsLink(name, name.to, name.from, adapters));
  RONDO_TRY(const LinkEnd theirs, parse_link_end(channel->blob()));
  LinkEnd own;
  Status refused = ok_status();
  for (const RailMatch& match : match_rails(theirs, adapters.ports())) {
    const RailEnd& peer = theirs.rails[match.theirs];
    RONDO_TRY(auto rail, Rail::make(*made, adapters.at(match.own), match.own, peer.pairs.size()));
    if (refused = rail->connect(own.rails.size(), peer); !refused.ok()) {
      RONDO_INFO(kNet, "{}", refused.error().text);
      continue;
    }
    own.rails.push_back(rail->end(peer.number));
    made->rails_.push_back(std::move(rail));
  }
  if (made->rails_.empty()) {
    RONDO_CHECK_OK(refused);
    return fail(StatusCode::kRemoteError, "rank {} has no port of the kind that rank {} has: {}",
                name.from, name.to, list_ports(adapters.ports()));
  }
  made->answered_ = true;
  channel->answer(serialize(own));
  made->channel_ = std::move(channel);
  return made;
}

// The acceptor decides which rails the link has, and their order.
Status VerbsLink::take_up_answer(ByteSpan blob) {
  RONDO_TRY(const LinkEnd theirs, parse_link_end(blob));
  std::vector<std::unique_ptr<Rail>> offered = std::exchange(rails_, {});
  for (const RailEnd& peer : theirs.rails) {
    const auto own = std::find_if(offered.begin(), offered.end(), [&](const auto& rail) {
      return rail && adapters_.at(rail->port()).device().port().rail == peer.number;
    });
    if (own == offered.end())
      return fail(StatusCode::kRemoteError, "it accepts a rail {} that was not offered",
                  peer.number);
    Rail& rail = *rails_.emplace_back(std::move(*own));
    auto up = rail.connect(rails_.size() - 1, peer);
    if (up.ok()) up = rail.ack_ready();
    if (!up.ok()) rail.lose(up.error().text);
  }
  answered_ = true;
  return ok_status();
}

const Adapters::Keys* VerbsLink::keys_of(net::MemoryKey key, std::span<const std::byte> bytes,
                                         const char* what) {
  static constexpr Adapters::Keys kNone{};
  if (bytes.empty()) return &kNone;
  const Adapters::Keys* const keys = adapters_.find(key, bytes);
  if (keys != nullptr) return keys;
  fail_with(
      fmt::format("key {} does not belong to memory with {} {} bytes", key, what, bytes.size()));
  return &kNone;
}

std::optional<net::Request> VerbsLink::isend(const CallRecord& record,
                                             std::span<const std::byte> body, net::MemoryKey key,
                                             std::uint32_t tag) {
  if (sending_.full()) return std::nullopt;
  const Adapters::Keys& keys = *keys_of(key, body, "the");
  if (body.size() > adapters_.max_bytes())
    fail_with(fmt::format("{} bytes are more than {} sends at once ({})", body.size(),
                          list_ports(adapters_.ports()), adapters_.max_bytes()));
  return net::Request{sending_.push(record, body, keys, tag), true};
}

std::optional<net::Request> VerbsLink::irecv(CallRecord& record, std::span<std::byte> room,
                                             net::MemoryKey key) {
  if (receiving_.full()) return std::nullopt;
  return net::Request{receiving_.push(record, room, *keys_of(key, room, "room for"), key), false};
}

Result<net::RemoteKey> VerbsLink::unpack_key(std::span<const std::byte> packed) {
  RONDO_TRY(const PackedKey key, parse_packed_key(packed));
  return putting_.learn(key);
}

std::optional<net::Request> VerbsLink::iput(const net::Put& put) {
  if (putting_.full()) return std::nullopt;
  const Adapters::Keys& keys = *keys_of(put.key, put.body, "the");
  if (put.body.size() > adapters_.max_bytes())
    fail_with(fmt::format("{} bytes are more than {} writes at once ({})", put.body.size(),
                          list_ports(adapters_.ports()), adapters_.max_bytes()));
  if (const auto wrong = putting_.check(put)) fail_with(*wrong);
  return net::Request{.number = putting_.push(put, keys), .sending = true, .putting = true};
}

net::Completion VerbsLink::test(net::Request request) const {
  if (request.putting) return {putting_.is_done(request.number)};
  if (request.sending) return {sending_.is_sent(request.number)};
  return receiving_.test(request.number);
}

bool VerbsLink::progress() {
  if (is_over(state_)) return false;
  bool moved = follow_channel();
  moved |= adapters_.poll();
  if (auto wrong = receiving_.settle(); wrong && trouble_.empty()) trouble_ = *wrong;
  moved |= std::exchange(reported_, false);
  if (channel_->state() < SideChannel::State::kClosed) moved |= follow_rails();
  if (state_ == LinkState::kOpen) {
    receiving_.offer(ways_, rails_);  // not counted as progress of this end
    moved |= sending_.send(ways_);
    moved |= putting_.send(ways_);
  }
  return settle() || moved;
}

bool VerbsLink::follow_channel() {
  const bool moved = channel_->progress();
  if (answered_ || channel_->state() != SideChannel::State::kOpen) return moved;
  if (const auto up = take_up_answer(channel_->blob()); !up.ok()) fail_with(up.error().text);
  return true;
}

// Updates the state of the rails.
bool VerbsLink::follow_rails() {
  if (!answered_ || is_over(state_)) return false;
  std::uint32_t up = 0, gone = 0;
  for (const auto& rail : rails_) {
    const std::uint32_t bit = 1u << rail->index();
    const bool others = std::any_of(rails_.begin(), rails_.end(), [&](const auto& other) {
      return other != rail && other->state() == Rail::State::kUp;
    });
    rail->watch(others);
    if (rail->state() == Rail::State::kUp) up |= bit;
    if (rail->state() == Rail::State::kGone) gone |= bit;
    if (rail->is_stuck())
      trouble_ = fmt::format("{}; and the device {} no longer reports what it had received",
                             rail->why(), adapters_.at(rail->port()).device().name());
  }
  const bool changed = up != up_ || gone != gone_;
  if (up != up_) find_ways(up);
  if (state_ == LinkState::kOpening && up != 0) {
    state_ = LinkState::kOpen;
    report_opened();
  }
  if (gone != gone_) {
    for (const auto& rail : rails_)
      if (((gone & ~gone_) >> rail->index() & 1) != 0) report_lost(*rail);
    gone_ = gone;
    note_due_ = true;
  }
  if (note_due_) log_loss();
  return changed;
}

// Alternates between the rails, so that the parts of a message go by different ones.
void VerbsLink::find_ways(std::uint32_t up) {
  up_ = up;
  ways_.clear();
  for (std::size_t pair = 0; pair < kMaxPairs; ++pair)
    for (const auto& rail : rails_)
      if ((up >> rail->index() & 1) != 0 && pair < rail->pairs())
        ways_.push_back({rail.get(), pair});
}

void VerbsLink::log_loss() {
  if (ways_.empty()) return;
  const auto [rail, pair] = ways_.front();
  if (rail->lost() || !rail->has_room(pair, 1) || notes_sent_ == kMaxRails) return;
  LossNote note;
  note.lost = gone_;
  note.granted = sending_.granted();
  receiving_.fill(note);
  for (const auto& each : rails_) note.puts = std::max(note.puts, each->puts());
  const auto from = rail->rings().subspan(Rings::own_note_at(notes_sent_), sizeof(note));
  std::memcpy(from.data(), &note, sizeof(note));
  const Ring ring{Ring::Kind::kLoss, static_cast<std::uint32_t>(notes_sent_)};
  Write writes[] = {{.from = from,
                     .local_key = rail->rings_key(),
                     .to = rail->peer().rings + Rings::note_at(notes_sent_),
                     .remote_key = rail->peer().rings_key,
                     .rings = ring.immediate()}};
  ++notes_sent_;
  note_due_ = false;
  if (const auto posted = rail->post(pair, writes, Posted::Kind::kControl); !posted.ok())
    rail->lose(posted.error().text);
}

std::optional<std::string> VerbsLink::receive_loss(const Rail& by, std::uint32_t index) {
  if (index >= kMaxRails) return fmt::format("it reports an invalid note number {}", index);
  LossNote note;
  std::memcpy(&note, &by.rings()[Rings::note_at(index)], sizeof(note));
  const std::uint32_t all = (1u << rails_.size()) - 1;
  if (note.lost == 0 || (note.lost & ~all) != 0 || (note.lost >> by.index() & 1) != 0)
    return fmt::format("it reports an invalid set of lost rails, {:#x} of {}", note.lost,
                       rails_.size());
  for (const auto& rail : rails_)
    if ((note.lost >> rail->index() & 1) != 0)
      rail->lose(fmt::format("{}: rank {} has lost it", rail->text(), peer_));
  auto wrong = sending_.take_note(note);
  if (!wrong) wrong = putting_.take_note(note);
  return wrong ? wrong : receiving_.take_note(note);
}

std::optional<std::string> VerbsLink::rung(Rail& rail, std::size_t pair, Ring ring) {
  reported_ = true;
  std::optional<std::string> wrong;
  switch (ring.kind) {
    case Ring::Kind::kReady:  // handled by the rail
      break;
    case Ring::Kind::kCredits:
      wrong = sending_.receive_credits(rail, ring.number);
      break;
    case Ring::Kind::kMessage:
      wrong = receiving_.arrived(rail, pair, ring);
      break;
    case Ring::Kind::kLoss:
      wrong = receive_loss(rail, ring.number);
      break;
  }
  if (wrong && trouble_.empty()) trouble_ = *wrong;
  return wrong;
}

// Ends the link if there is a reason. Prefers the peer's reason to the device's, because the errors
// of a device after its peer has left do not show the cause.
bool VerbsLink::settle() {
  if (is_over(state_)) return true;
  if (channel_->state() == SideChannel::State::kClosed) {
    while (adapters_.poll()) continue;  // all writes before the close have arrived
    if (receiving_.flushes() && trouble_.empty()) return false;
    fail_with(channel_->why(), LinkState::kClosed);
  } else if (channel_->state() == SideChannel::State::kEnded) {
    fail_with(channel_->why());
  } else if (!trouble_.empty()) {
    fail_with(trouble_);
  } else if (answered_ && std::all_of(rails_.begin(), rails_.end(),
                                      [](const auto& rail) { return rail->lost(); })) {
    fail_with(loss_of_all());
  } else {
    return false;
  }
  return true;
}

std::string VerbsLink::loss_of_all() const {
  std::string text;
  for (const auto& rail : rails_) text += (text.empty() ? "" : "; ") + rail->why();
  return text;
}

void VerbsLink::report_opened() const {
  std::string rails;
  for (const auto& rail : rails_) rails += (rails.empty() ? "" : "; ") + rail->text();
  RONDO_INFO(kNet, "rank {}: lane {} to rank {} ({}) uses {}", own_, name_.lane, peer_,
             channel_->address(), rails);
}

void VerbsLink::report_lost(const Rail& rail) const {
  const auto left = std::popcount(up_);
  if (left == 0) return;  // the error reports it
  RONDO_WARN("rank {} continues to rank {} ({}) with {} of {} rails: {}", own_, peer_,
             channel_->address(), left, rails_.size(), rail.why());
}

void VerbsLink::fail_with(const std::string& why, LinkState state) {
  if (is_over(state_)) return;
  state_ = state;
  error_ = fail(StatusCode::kRemoteError, "the connection of rank {} to rank {} ({}) ended: {}",
                own_, peer_, channel_ ? channel_->address() : "", why);
  ways_.clear();
  rails_.clear();
  if (channel_) channel_->close();
}

}  // namespace rondo::verbs
