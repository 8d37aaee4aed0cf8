// SPDX-License-Identifier: Apache-2.0
#include "transport/verbs/ibverbs/sides.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cstring>

namespace rondo::verbs {

std::uint64_t SendSide::push(const CallRecord& record, std::span<const std::byte> body,
                             const Adapters::Keys& keys, std::uint32_t tag) {
  assert(pushed_ - sent_ < kDepth);
  outgoing_[pushed_ % kDepth] = {record, body, keys, tag};
  return pushed_++;
}

std::optional<std::string> SendSide::receive_credits(const Rail& rail, std::uint32_t low) {
  const auto now = number_after(granted_, low, written_ + kDepth - granted_);
  if (!now) return fmt::format("it reported credits up to {}, which is impossible now", low);
  for (; granted_ < *now; ++granted_) {
    Credit& credit = credits_[granted_ % kDepth];
    std::memcpy(&credit, &rail.rings()[Rings::credit_at(granted_)], sizeof(credit));
    if (credit.number != static_cast<std::uint32_t>(granted_))
      return fmt::format("its credit {} has the number {}", granted_, credit.number);
  }
  return std::nullopt;
}

bool SendSide::send(std::span<const Way> ways) {
  if (ways.empty()) return false;
  bool moved = homeless_ > 0 && send_again(ways);
  while (homeless_ == 0 && written_ < std::min(pushed_, granted_) && begin(ways)) moved = true;
  return moved;
}

// False: a queue is full.
bool SendSide::begin(std::span<const Way> ways) {
  assert(!ways.empty() && written_ < pushed_ && written_ < granted_);
  const std::uint64_t number = written_;
  Outgoing& message = outgoing_[number % kDepth];
  const std::size_t bytes = message.body.size();
  // If the body does not fit, only its size is sent, and the receiver fails.
  const bool fits = bytes <= credits_[number % kDepth].room;
  const std::size_t parts =
      fits ? std::clamp<std::size_t>(bytes / kLeastPart, 1, ways.size()) : std::size_t{1};
  for (std::size_t i = 0; i < parts; ++i) {
    const Way& way = ways[(number + i) % ways.size()];
    if (!way.rail->has_room(way.pair, 2)) return false;
  }
  message.parts = static_cast<std::uint32_t>(parts);
  message.step = ((bytes + parts - 1) / parts + kStep - 1) / kStep * kStep;
  message.done = 0;
  if (!fits) message.body = message.body.first(0), message.step = bytes;
  ++written_;
  for (std::uint32_t i = 0; i < parts; ++i) send_part(number, i, ways[(number + i) % ways.size()]);
  return true;
}

bool SendSide::send_again(std::span<const Way> ways) {
  bool moved = false;
  for (std::uint64_t number = sent_; number < written_ && homeless_ > 0; ++number) {
    Outgoing& message = outgoing_[number % kDepth];
    for (std::uint32_t part = 0; part < message.parts; ++part) {
      if (message.rails[part] != kNowhere) continue;
      const Way& way = ways[(number + part) % ways.size()];
      if (!way.rail->has_room(way.pair, 2)) return moved;
      send_part(number, part, way);
      --homeless_;
      ++resent_;
      moved = true;
    }
  }
  return moved;
}

// If the rail refuses the part, the rail is lost; the peer will report the part as missing.
void SendSide::send_part(std::uint64_t number, std::uint32_t part, const Way& way) {
  assert(number < written_ && part < outgoing_[number % kDepth].parts);
  Outgoing& message = outgoing_[number % kDepth];
  Rail& rail = *way.rail;
  message.rails[part] = static_cast<std::uint8_t>(rail.index());
  if (rail.lost()) return;
  const Credit& credit = credits_[number % kDepth];
  const std::size_t bytes = message.body.size();
  const std::size_t begin = std::min(part * message.step, bytes);
  const auto body = message.body.subspan(begin, std::min(message.step, bytes - begin));
  const bool too_long = bytes == 0 && message.step > 0;
  const Header header{message.record, too_long ? message.step : bytes, message.tag,
                      static_cast<std::uint16_t>(number),
                      static_cast<std::uint16_t>(message.parts)};
  const Ring ring{Ring::Kind::kMessage, static_cast<std::uint32_t>(number & Ring::kMask), part};
  Write writes[2] = {{.from = body,
                      .local_key = message.keys[rail.port()].local,
                      .to = credit.address + begin,
                      .remote_key = credit.keys[rail.index()]},
                     {.from = std::as_bytes(std::span(&header, 1)),
                      .to = rail.peer().rings + Rings::header_at(way.pair, number),
                      .remote_key = rail.peer().rings_key,
                      .rings = ring.immediate(),
                      .inlined = true}};
  const auto value = static_cast<std::uint16_t>(number % kDepth | part << 8);
  const auto posted =
      rail.post(way.pair, std::span(writes).last(body.empty() ? 1 : 2), Posted::Kind::kPart, value);
  if (!posted.ok()) rail.lose(posted.error().text);
}

void SendSide::sent(std::uint16_t value) {
  outgoing_[value & 0xff].done |= 1u << (value >> 8);
  count_sent();
}

void SendSide::count_sent() {
  while (sent_ < written_ && outgoing_[sent_ % kDepth].is_done()) ++sent_;
}

std::optional<std::string> SendSide::take_note(const LossNote& note) {
  if (note.received > written_ || written_ - note.received > kDepth)
    return fmt::format("it reports {} received messages of {}", note.received, written_);
  for (std::uint64_t number = sent_; number < written_; ++number) {
    Outgoing& message = outgoing_[number % kDepth];
    const std::uint32_t there = number < note.received ? ~0u : note.parts[number - note.received];
    for (std::uint32_t part = 0; part < message.parts; ++part) {
      if (message.rails[part] == kNowhere || (note.lost >> message.rails[part] & 1) == 0) continue;
      const bool arrived = (there >> part & 1) != 0;
      if (!arrived && (message.done >> part & 1) != 0)
        return fmt::format("it has lost part {} of message {}, which it had taken", part, number);
      if (arrived) {
        message.done |= 1u << part;
      } else {
        message.rails[part] = kNowhere;
        ++homeless_;
      }
    }
  }
  count_sent();
  return std::nullopt;
}

std::uint64_t ReceiveSide::push(CallRecord& record, std::span<std::byte> room,
                                const Adapters::Keys& keys, net::MemoryKey key) {
  assert(posted_ - received_ < kDepth);
  incoming_[posted_ % kDepth] = {&record, room, keys, adapters_.needs_flush(key) ? key : 0};
  return posted_++;
}

net::Completion ReceiveSide::test(std::uint64_t number) const {
  if (number >= received_) return {};
  const Header& header = incoming_[number % kDepth].header;
  return {true, header.bytes, header.tag};
}

void ReceiveSide::offer(std::span<const Way> ways, const Rails& rails) {
  if (offered_ == posted_) return;
  if (credit_rail_ == nullptr && !ways.empty()) credit_rail_ = ways.front().rail;
  if (credit_rail_ == nullptr) return;
  while (offered_ < posted_ && !credit_rail_->lost() && offer_some(*credit_rail_, rails)) continue;
}

// False: the queue is full.
bool ReceiveSide::offer_some(Rail& rail, const Rails& rails) {
  Write writes[QueuePair::kMaxWrites];
  Credit credits[QueuePair::kMaxWrites];
  const std::size_t count = std::min<std::size_t>(posted_ - offered_, QueuePair::kMaxWrites);
  if (!rail.has_room(0, count)) return false;
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t number = offered_ + i;
    const Incoming& message = incoming_[number % kDepth];
    credits[i] = {reinterpret_cast<std::uintptr_t>(message.room.data()),
                  message.room.size(),
                  {},
                  static_cast<std::uint32_t>(number)};
    for (const auto& each : rails)
      credits[i].keys[each->index()] = message.keys[each->port()].remote;
    writes[i] = {.from = std::as_bytes(std::span(&credits[i], 1)),
                 .to = rail.peer().rings + Rings::credit_at(number),
                 .remote_key = rail.peer().rings_key,
                 .inlined = true};
  }
  offered_ += count;
  writes[count - 1].rings =
      Ring{Ring::Kind::kCredits, static_cast<std::uint32_t>(offered_ & Ring::kMask)}.immediate();
  const auto outcome = rail.post(0, std::span(writes).first(count), Posted::Kind::kControl);
  if (!outcome.ok()) rail.lose(outcome.error().text);
  return true;
}

std::optional<std::string> ReceiveSide::arrived(Rail& rail, std::size_t pair, const Ring& ring) {
  const auto number = number_after(received_, ring.number, kDepth);
  if (!number || *number >= offered_)
    return fmt::format("it sent message {}, which is impossible now", ring.number);
  Header header;
  std::memcpy(&header, &rail.rings()[Rings::header_at(pair, *number)], sizeof(header));
  Incoming& message = incoming_[*number % kDepth];
  if (header.number != static_cast<std::uint16_t>(*number) || header.parts < 1 ||
      header.parts > kMaxPairs || ring.part >= header.parts ||
      (message.arrived >> ring.part & 1) != 0)
    return fmt::format("it sent an invalid slot {}", *number);
  if (header.bytes > message.room.size())
    return fmt::format("it sent {} bytes in slot {}, where at most {} fit", header.bytes, *number,
                       message.room.size());
  message.header = header;
  message.arrived |= 1u << ring.part;
  const std::uint64_t rest = ring.part == 0 ? header.bytes % header.parts : 0;
  rail.count_received(header.bytes / header.parts + rest);  // parts are nearly equal
  return count_received();
}

std::optional<std::string> ReceiveSide::count_received() {
  flush_due_ = false;
  for (; received_ < offered_; ++received_) {
    Incoming& next = incoming_[received_ % kDepth];
    if (!next.is_whole()) break;
    const auto visible = next.flushed == 0 ? Result<bool>(true) : is_visible(next);
    if (!visible.ok()) return visible.error().text;
    flush_due_ = !*visible;
    if (flush_due_) break;
    *next.record = next.header.record;
  }
  return std::nullopt;
}

// One flush covers the following messages that are whole when it begins and have the same key.
Result<bool> ReceiveSide::is_visible(const Incoming& next) {
  if (received_ < flushed_) return true;
  if (!flushing_) {
    RONDO_TRY(flushing_, adapters_.begin_flush(next.flushed, next.room.data()));
    if (!flushing_) return false;
    for (flushed_next_ = received_; flushed_next_ < offered_; ++flushed_next_) {
      const Incoming& other = incoming_[flushed_next_ % kDepth];
      if (!other.is_whole() || other.flushed != next.flushed) break;
    }
  }
  RONDO_TRY(const bool over, adapters_.is_over(*flushing_));
  if (!over) return false;
  flushing_.reset();
  flushed_ = flushed_next_;
  return true;
}

void ReceiveSide::fill(LossNote& note) const {
  note.received = received_;
  for (std::uint64_t number = received_; number < std::min(offered_, received_ + kDepth); ++number)
    note.parts[number - received_] = static_cast<std::uint16_t>(incoming_[number % kDepth].arrived);
}

std::optional<std::string> ReceiveSide::take_note(const LossNote& note) {
  if (note.granted < received_ || note.granted > posted_)
    return fmt::format("it says that it has {} credits of {}", note.granted, offered_);
  if (credit_rail_ == nullptr || (note.lost >> credit_rail_->index() & 1) == 0) return std::nullopt;
  offered_ = note.granted;
  credit_rail_ = nullptr;
  return std::nullopt;
}

}  // namespace rondo::verbs
