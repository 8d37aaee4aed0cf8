#include "transport/verbs/ibverbs/receive_side.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace rondo::verbs {

std::uint64_t ReceiveSide::push(CallRecord& record, std::span<std::byte> room,
                                const Adapters::Keys& keys, net::MemoryKey key) {
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
  const auto told = rail.post(0, std::span(writes).first(count), Posted::Kind::kControl);
  if (!told.ok()) rail.lose(told.error().text);
  return true;
}

std::optional<std::string> ReceiveSide::arrived(const Rail& rail, std::size_t pair,
                                                const Ring& ring) {
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

std::optional<std::string> ReceiveSide::hear(const LossNote& note) {
  if (note.granted < received_ || note.granted > posted_)
    return fmt::format("it says that it has {} credits of {}", note.granted, offered_);
  if (credit_rail_ == nullptr || (note.lost >> credit_rail_->index() & 1) == 0) return std::nullopt;
  offered_ = note.granted;
  credit_rail_ = nullptr;
  return std::nullopt;
}

}  // namespace rondo::verbs
