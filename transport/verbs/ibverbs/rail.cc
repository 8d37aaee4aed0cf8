// SPDX-License-Identifier: Apache-2.0
#include "transport/verbs/ibverbs/rail.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/atomics.h"
#include "base/seconds.h"

namespace rondo::verbs {
namespace {

// A working device reports flushed requests at once.
constexpr std::chrono::seconds kDrainPatience{5};
// Upper limit of what one check adds: between two checks the caller possibly just computed.
constexpr std::chrono::duration<double> kMaxBetweenLooks{1};
// A longer gap means that this side did not look (stopped, or computing): only this is counted.
constexpr std::int64_t kMaxBetweenCompletions = 250'000'000;  // ns

bool carries_data(Posted::Kind kind) {
  return kind == Posted::Kind::kPart || kind == Posted::Kind::kPut;
}

}  // namespace

Result<std::unique_ptr<Rail>> Rail::make(RailOwner& owner, Adapter& adapter, std::size_t port,
                                         std::size_t pairs) {
  std::unique_ptr<Rail> made(new Rail(owner, adapter, port));
  RONDO_TRY(made->rings_, adapter.pool().take(Rings::bytes(pairs)));
  std::memset(&made->rings_.bytes[Rings::puts_at()], 0, sizeof(Rings::puts));
  for (std::size_t i = 0; i < pairs; ++i) {
    RONDO_TRY(auto pair,
              QueuePair::create(adapter.device(), {Adapter::kSends, Adapter::kReceives}));
    RONDO_TRY(const std::uint32_t slot, adapter.add_pair(*made, static_cast<int>(i)));
    made->pairs_.push_back({std::move(pair), slot});
  }
  return made;
}

Rail::~Rail() {
  drop();
  if (!rings_.bytes.empty()) adapter_.pool().give_back(rings_);
}

void Rail::drop() {
  for (const Pair& each : pairs_) adapter_.remove_pair(each.slot);
  pairs_.clear();
  state_ = State::kGone;
}

RailEnd Rail::end(std::uint8_t number) const {
  RailEnd end{.number = number,
              .port = static_cast<std::uint8_t>(port_),
              .rings = reinterpret_cast<std::uintptr_t>(rings_.bytes.data()),
              .rings_key = rings_.remote_key};
  for (const Pair& each : pairs_) end.pairs.push_back(each.pair->endpoint());
  return end;
}

Status Rail::connect(std::size_t index, const RailEnd& peer) {
  index_ = index;
  peer_ = peer;
  if (peer.pairs.size() != pairs_.size())
    return fail(StatusCode::kRemoteError, "it has {} queue pairs, this side {}", peer.pairs.size(),
                pairs_.size());
  for (std::size_t i = 0; i < pairs_.size(); ++i) {
    Pair& each = pairs_[i];
    RONDO_CHECK_OK(each.pair->post_receives(Adapter::kReceives, Posted{.slot = each.slot}.id()));
    each.receives = Adapter::kReceives;
    RONDO_CHECK_OK(each.pair->connect(peer.pairs[i]));
  }
  return ok_status();
}

// Without this, the peer could write to a queue pair that is not connected yet. It drops packets,
// and the peer resends them only after the timeout of a lost packet.
Status Rail::ack_ready() {
  state_ = State::kUp;
  for (std::size_t i = 0; i < pairs_.size(); ++i) {
    Write ready[] = {
        {.to = peer_.rings, .remote_key = peer_.rings_key, .rings = Ring{}.immediate()}};
    RONDO_CHECK_OK(post(i, ready, Posted::Kind::kControl));
  }
  return ok_status();
}

std::uint64_t Rail::puts() const {
  return HostAtomics::load_acquire(
      *reinterpret_cast<const std::uint64_t*>(&rings_.bytes[Rings::puts_at()]));
}

bool Rail::has_room(std::size_t pair, std::size_t writes) const {
  return pairs_[pair].sends + static_cast<int>(writes) <= Adapter::kSends;
}

Status Rail::post(std::size_t pair, std::span<Write> writes, Posted::Kind kind,
                  std::uint16_t value) {
  Pair& by = pairs_[pair];
  for (Write& write : writes) write.id = Posted{by.slot, Posted::Kind::kWithNext, 0}.id();
  writes.back().completes = true;
  writes.back().id = Posted{by.slot, kind, static_cast<std::uint8_t>(writes.size()), value}.id();
  if (posted_ == 0) moved_ = true;  // the time without progress starts now
  by.sends += static_cast<int>(writes.size());
  posted_ += static_cast<int>(writes.size());
  Status posted = by.pair->post(writes);
  if (!posted.ok()) {
    by.sends -= static_cast<int>(writes.size());
    posted_ -= static_cast<int>(writes.size());
  } else if (carries_data(kind)) {
    count_posted(writes);
  }
  return posted;
}

void Rail::count_posted(std::span<const Write> writes) {
  if (parts_++ == 0) counted_at_ = now_ns();
  for (const Write& write : writes)
    if (!write.inlined) traffic_.sent_bytes += write.from.size();
}

void Rail::count_completed() {
  const std::int64_t now = now_ns();
  traffic_.busy_ns += static_cast<std::uint64_t>(
      std::clamp<std::int64_t>(now - std::exchange(counted_at_, now), 0, kMaxBetweenCompletions));
  ++traffic_.parts;
  --parts_;
}

void Rail::completed(int pair, const Posted& posted, const ibv_wc& completion) {
  Pair& by = pairs_[static_cast<std::size_t>(pair)];
  moved_ = true;
  std::optional<std::string> wrong;
  const bool receive = posted.kind == Posted::Kind::kReceive;
  if (receive) {
    --by.receives;
  } else if (posted.kind != Posted::Kind::kWithNext) {
    by.sends -= posted.writes;
    posted_ -= posted.writes;
  }
  if (carries_data(posted.kind)) count_completed();
  if (completion.status != IBV_WC_SUCCESS) {
    wrong = by.pair->failure_of(completion).text;
  } else if (receive) {
    wrong = take(static_cast<std::size_t>(pair), completion);
  } else if (posted.kind == Posted::Kind::kPart && !lost()) {
    owner_.sent(*this, posted.value);
  } else if (posted.kind == Posted::Kind::kPut && !lost()) {
    owner_.put(*this, posted.value);
  }
  if (wrong) lose(std::move(*wrong));
}

std::optional<std::string> Rail::take(std::size_t pair, const ibv_wc& completion) {
  const Ring ring = Ring::of(ntohl(completion.imm_data));
  if (!lost()) {
    Pair& by = pairs_[pair];
    if (const auto again = by.pair->post_receives(1, Posted{.slot = by.slot}.id()); !again.ok())
      return again.error().text;
    ++by.receives;
  }
  if (ring.kind != Ring::Kind::kReady) return owner_.rung(*this, pair, ring);
  if (++ready_ == pairs_.size() && state_ == State::kOpening) state_ = State::kUp;
  return std::nullopt;
}

void Rail::lose(std::string why) {
  if (lost()) return;
  state_ = State::kDraining;
  why_ = std::move(why);
  lost_at_ = Clock::now();
  for (const Pair& each : pairs_) each.pair->stop();
}

bool Rail::rests() {
  if (posted_ == 0 || ++looks_ % 4 != 0) return false;
  const auto now = Clock::now();
  const auto since = std::min<std::chrono::duration<double>>(now - looked_at_, kMaxBetweenLooks);
  looked_at_ = now;
  rested_ = std::exchange(moved_, false) ? std::chrono::duration<double>() : rested_ + since;
  return rested_.count() > adapter_.patience();
}

bool Rail::drained() const {
  return std::all_of(pairs_.begin(), pairs_.end(),
                     [](const Pair& each) { return each.receives == 0 && each.sends == 0; });
}

bool Rail::watch(bool others) {
  const State before = state_;
  if (!lost()) {
    if (auto trouble = adapter_.trouble(others)) {
      lose(text() + ": " + *trouble);
    } else if (rests()) {
      lose(fmt::format(
          "{}: its requests made no progress for {:g} seconds (RONDO_NET_TIMEOUT); the path to the "
          "peer is broken: check the switch; on RoCE a firewall must pass UDP port 4791",
          text(), adapter_.patience()));
    }
  }
  if (state_ == State::kDraining && drained()) drop();
  return state_ != before;
}

bool Rail::is_stuck() const {
  return state_ == State::kDraining && Clock::now() - lost_at_ > kDrainPatience;
}

std::string Rail::text() const {
  const RailEnd own = end(0);
  if (own.pairs.empty()) return adapter_.device().name();
  std::string text =
      fmt::format("RDMA port {} ({})", adapter_.device().name(), address_text(own.pairs.front()));
  if (!peer_.pairs.empty()) text += fmt::format(" to {}", address_text(peer_.pairs.front()));
  for (std::size_t i = 0; i < own.pairs.size(); ++i) {
    text += fmt::format("{}{}", i == 0 ? ", queue pair " : ", ", own.pairs[i].queue_pair);
    if (i < peer_.pairs.size()) text += fmt::format(" to {}", peer_.pairs[i].queue_pair);
  }
  return text;
}

}  // namespace rondo::verbs
