// SPDX-License-Identifier: Apache-2.0
#include "transport/verbs/ibverbs/put_side.h"

#include <fmt/format.h>

namespace rondo::verbs {
namespace {

constexpr std::size_t kMaxWritesOfAPut = 3;  // the body, its word, the count

std::span<const std::byte> bytes_of(const std::uint64_t& word) {
  return std::as_bytes(std::span(&word, 1));
}

}  // namespace

net::RemoteKey PutSide::learn(const PackedKey& key) {
  there_.emplace(++last_, key);
  return last_;
}

std::optional<std::string> PutSide::check(const net::Put& put) const {
  const auto fits = [&](net::RemoteKey key, std::uint64_t offset, std::uint64_t bytes) {
    const auto there = there_.find(key);
    return there != there_.end() && offset <= there->second.bytes &&
           bytes <= there->second.bytes - offset;
  };
  if (!put.body.empty() && !fits(put.to, put.offset, put.body.size()))
    return fmt::format("a put of {} bytes at {} is not within memory of the peer", put.body.size(),
                       put.offset);
  if (put.word_in && (!fits(*put.word_in, put.word_offset, sizeof(put.word)) ||
                      put.word_offset % sizeof(put.word) != 0))
    return fmt::format("a put's word at {} is not within memory of the peer", put.word_offset);
  return std::nullopt;
}

PackedKey PutSide::part_of(const PackedKey& all, std::uint64_t offset) {
  return {all.address + offset, all.bytes - offset, all.keys};
}

std::uint64_t PutSide::push(const net::Put& put, const Adapters::Keys& keys) {
  Outgoing& next = outgoing_[pushed_ % kDepth];
  next = {.body = put.body, .keys = keys, .value = put.word, .count = pushed_ + 1};
  if (!check(put)) {  // otherwise the link has failed
    if (!put.body.empty()) next.to = part_of(there_.at(put.to), put.offset);
    if (put.word_in) next.word = part_of(there_.at(*put.word_in), put.word_offset);
  }
  return pushed_++;
}

bool PutSide::send(std::span<const Way> ways) {
  if (written_ == pushed_) return false;
  if (!way_ && !ways.empty()) way_ = ways.front();
  if (!way_ || way_->rail->state() != Rail::State::kUp) return false;
  const std::uint64_t before = written_;
  while (written_ < pushed_ && !way_->rail->lost() &&
         way_->rail->has_room(way_->pair, kMaxWritesOfAPut))
    post(outgoing_[written_++ % kDepth], *way_);
  return written_ != before;
}

// If the rail refuses the put, the rail is lost; the peer's note will then not count the put.
void PutSide::post(Outgoing& put, const Way& way) {
  Rail& rail = *way.rail;
  const std::size_t port = rail.peer().port;
  Write writes[kMaxWritesOfAPut];
  std::size_t count = 0;
  if (!put.body.empty())
    writes[count++] = {.from = put.body,
                       .local_key = put.keys[rail.port()].local,
                       .to = put.to.address,
                       .remote_key = put.to.keys[port]};
  if (put.word.bytes != 0)
    writes[count++] = {.from = bytes_of(put.value),
                       .to = put.word.address,
                       .remote_key = put.word.keys[port],
                       .inlined = true};
  writes[count++] = {.from = bytes_of(put.count),
                     .to = rail.peer().rings + Rings::puts_at(),
                     .remote_key = rail.peer().rings_key,
                     .inlined = true};
  const auto posted = rail.post(way.pair, std::span(writes).first(count), Posted::Kind::kPut,
                                static_cast<std::uint16_t>(put.count));
  if (!posted.ok()) rail.lose(posted.error().text);
}

void PutSide::put(std::uint16_t value) {
  // At most kDepth are in flight, so the low bits are unique.
  const auto more = static_cast<std::uint16_t>(value - static_cast<std::uint16_t>(done_));
  if (more <= written_ - done_) done_ += more;
}

std::optional<std::string> PutSide::take_note(const LossNote& note) {
  if (note.puts > written_)
    return fmt::format("it says that {} puts have taken effect, of {}", note.puts, written_);
  if (!way_ || (note.lost >> way_->rail->index() & 1) == 0) return std::nullopt;
  if (note.puts < done_)
    return fmt::format("it says that {} puts have taken effect, and has taken {}", note.puts,
                       done_);
  done_ = written_ = note.puts;
  way_.reset();
  return std::nullopt;
}

}  // namespace rondo::verbs
