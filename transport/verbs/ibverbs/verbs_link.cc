#include "transport/verbs/ibverbs/verbs_link.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace rondo::verbs {

using net::LinkState;
using net::SideChannel;

namespace {

// A body is split over queue pairs from twice this many bytes on, by multiples of kStep.
constexpr std::size_t kLeastPart = 16 << 10;
constexpr std::size_t kStep = 128;

std::size_t parts_of(std::size_t bytes, std::size_t pairs) {
  return std::clamp<std::size_t>(bytes / kLeastPart, 1, pairs);
}

}  // namespace

Result<std::unique_ptr<VerbsLink>> VerbsLink::connect(const net::LinkName& name, Adapter& adapter,
                                                      int pairs, const Connect& connect) {
  std::unique_ptr<VerbsLink> made(new VerbsLink(name, name.to, adapter));
  RONDO_CHECK_OK(made->make_pairs(static_cast<std::size_t>(pairs)));
  RONDO_TRY(made->channel_, connect(serialize(made->own_end())));
  return made;
}

Result<std::unique_ptr<VerbsLink>> VerbsLink::accept(Adapter& adapter,
                                                     std::unique_ptr<SideChannel> channel) {
  std::unique_ptr<VerbsLink> made(new VerbsLink(channel->name(), channel->name().from, adapter));
  RONDO_TRY(const LinkEnd theirs, parse_link_end(channel->blob()));
  RONDO_CHECK_OK(made->make_pairs(theirs.pairs.size()));
  RONDO_CHECK_OK(made->connect_pairs(channel->blob()));
  channel->answer(serialize(made->own_end()));
  made->channel_ = std::move(channel);
  return made;
}

VerbsLink::~VerbsLink() {
  drop_pairs();
  if (!rings_.bytes.empty()) adapter_.pool().give_back(rings_);
}

Done VerbsLink::make_pairs(std::size_t count) {
  RONDO_TRY(rings_, adapter_.pool().take(Rings::bytes(count)));
  for (std::size_t i = 0; i < count; ++i) {
    RONDO_TRY(auto pair,
              QueuePair::create(adapter_.device(), {Adapter::kSends, Adapter::kReceives}));
    RONDO_TRY(const std::uint32_t slot, adapter_.add_pair(*this, static_cast<int>(i)));
    pairs_.push_back({std::move(pair), slot});
  }
  return done();
}

Done VerbsLink::connect_pairs(ByteSpan blob) {
  RONDO_TRY(theirs_, parse_link_end(blob));
  if (theirs_.pairs.size() != pairs_.size())
    return fail(Status::kRemoteError, "it has {} queue pairs, this side {}", theirs_.pairs.size(),
                pairs_.size());
  for (std::size_t i = 0; i < pairs_.size(); ++i) {
    QueuePair& pair = *pairs_[i].pair;
    RONDO_CHECK_OK(pair.post_receives(Adapter::kReceives, Posted{.slot = pairs_[i].slot}.id()));
    RONDO_CHECK_OK(pair.connect(theirs_.pairs[i]));
  }
  return done();
}

LinkEnd VerbsLink::own_end() const {
  LinkEnd end{.rings = reinterpret_cast<std::uintptr_t>(rings_.bytes.data()),
              .rings_key = rings_.remote_key};
  for (const Pair& each : pairs_) end.pairs.push_back(each.pair->endpoint());
  return end;
}

// The acceptor writes nothing before: a queue pair that is not connected drops it, and it would be
// sent again only after the timeout of a lost packet.
void VerbsLink::say_ready() {
  for (Pair& each : pairs_) {
    Write ready[] = {
        {.to = theirs_.rings, .remote_key = theirs_.rings_key, .rings = Ring{}.immediate()}};
    if (const auto said = post(each, ready, Posted::Kind::kCredits, 1); !said.ok())
      return fail_with(said.error().text);
  }
  state_ = LinkState::kOpen;
}

std::optional<net::Request> VerbsLink::isend(const CallRecord& record,
                                             std::span<const std::byte> body, net::MemoryKey key,
                                             std::uint32_t tag) {
  if (pushed_ - sent_ == kDepth) return std::nullopt;
  const Region* const region = body.empty() ? nullptr : adapter_.find(key, body);
  if (region == nullptr && !body.empty())
    fail_with(fmt::format("key {} names no memory with the {} bytes to send", key, body.size()));
  if (body.size() > adapter_.device().most_bytes())
    fail_with(fmt::format("{} bytes are more than {} sends at once ({})", body.size(),
                          adapter_.device().name(), adapter_.device().most_bytes()));
  outgoing_[pushed_ % kDepth] = {record, body, region ? region->local_key() : 0, tag};
  return net::Request{pushed_++, true};
}

std::optional<net::Request> VerbsLink::irecv(CallRecord& record, std::span<std::byte> room,
                                             net::MemoryKey key) {
  if (posted_ - received_ == kDepth) return std::nullopt;
  const Region* const region = room.empty() ? nullptr : adapter_.find(key, room);
  if (region == nullptr && !room.empty())
    fail_with(fmt::format("key {} names no memory with room for {} bytes", key, room.size()));
  incoming_[posted_ % kDepth] = {&record, room, region ? region->remote_key() : 0};
  return net::Request{posted_++, false};
}

net::Completion VerbsLink::test(net::Request request) const {
  if (request.sending) return {request.number < sent_};
  if (request.number >= received_) return {};
  const Header& header = incoming_[request.number % kDepth].header;
  return {true, header.bytes, header.tag};
}

bool VerbsLink::progress() {
  if (is_over(state_)) return false;
  bool moved = follow_channel();
  moved |= adapter_.poll();
  moved |= std::exchange(told_, false);
  if (state_ == LinkState::kOpen) {
    moved |= offer();
    moved |= send();
  }
  return settle() || moved;
}

bool VerbsLink::follow_channel() {
  const bool moved = channel_->progress();
  // The connector's: its peer has answered.
  if (state_ != LinkState::kOpening || channel_->state() != SideChannel::State::kOpen ||
      !theirs_.pairs.empty())
    return moved;
  if (const auto connected = connect_pairs(channel_->blob()); !connected.ok()) {
    fail_with(connected.error().text);
  } else {
    say_ready();
  }
  return true;
}

// The end, by whoever tells it: the peer before the device, since what breaks when a peer leaves
// says little of why.
bool VerbsLink::settle() {
  if (is_over(state_)) return true;
  if (channel_->state() == SideChannel::State::kClosed) {
    while (adapter_.poll()) continue;  // what was written before the close is there
    fail_with(channel_->why(), LinkState::kClosed);
  } else if (channel_->state() == SideChannel::State::kEnded) {
    fail_with(channel_->why());
  } else if (!trouble_.empty()) {
    fail_with(trouble_);
  } else if (const auto trouble = adapter_.trouble()) {
    fail_with(*trouble);
  } else {
    return false;
  }
  return true;
}

void VerbsLink::completed(int pair, const Posted& posted, const ibv_wc& completion) {
  Pair& by = pairs_[static_cast<std::size_t>(pair)];
  told_ = true;
  std::optional<std::string> wrong;
  if (completion.status != IBV_WC_SUCCESS) {
    wrong = by.pair->failure_of(completion).text;
  } else if (posted.kind == Posted::Kind::kReceive) {
    wrong = rung(pair, Ring::of(ntohl(completion.imm_data)));
    if (const auto again = by.pair->post_receives(1, posted.id()); !again.ok() && !wrong)
      wrong = again.error().text;
  } else if (posted.kind == Posted::Kind::kCredits) {
    by.posted -= static_cast<int>(posted.value);
  } else {
    by.posted -= posted.kind == Posted::Kind::kBodyAndHeader ? 2 : 1;
    --outgoing_[posted.value % kDepth].unfinished;
    while (sent_ < written_ && outgoing_[sent_ % kDepth].unfinished == 0) ++sent_;
  }
  if (wrong && trouble_.empty()) trouble_ = *wrong;
}

std::optional<std::string> VerbsLink::rung(int pair, Ring ring) {
  switch (ring.kind) {
    case Ring::Kind::kReady:
      if (++ready_ == pairs_.size() && state_ == LinkState::kOpening) state_ = LinkState::kOpen;
      return std::nullopt;
    case Ring::Kind::kCredits:
      if (const auto now = number_after(granted_, ring.number, written_ + kDepth - granted_)) {
        granted_ = *now;
        return std::nullopt;
      }
      break;
    case Ring::Kind::kMessage:
      if (const auto number = number_after(received_, ring.number, kDepth);
          number && *number < offered_)
        return arrived(pair, *number);
      break;
  }
  return fmt::format("it rang with a number that cannot be now ({}, {})",
                     static_cast<unsigned>(ring.kind), ring.number);
}

std::optional<std::string> VerbsLink::arrived(int pair, std::uint64_t number) {
  Header header;
  std::memcpy(&header, &rings_.bytes[Rings::header_at(static_cast<std::size_t>(pair), number)],
              sizeof(header));
  Incoming& message = incoming_[number % kDepth];
  if (header.number != static_cast<std::uint16_t>(number) || header.parts < 1 ||
      header.parts > pairs_.size() || message.arrived >= header.parts)
    return fmt::format("what it sent as slot {} is no slot", number);
  if (header.bytes > message.room.size())
    return fmt::format("it sent {} bytes in slot {}, where at most {} fit", header.bytes, number,
                       message.room.size());
  message.header = header;
  ++message.arrived;
  while (received_ < offered_) {
    Incoming& next = incoming_[received_ % kDepth];
    if (next.arrived == 0 || next.arrived < next.header.parts) break;
    *next.record = next.header.record;
    ++received_;
  }
  return std::nullopt;
}

// Credits for receives that were posted since.
bool VerbsLink::offer() {
  Pair& by = pairs_.front();
  while (offered_ < posted_) {
    Write writes[QueuePair::kMostWrites];
    Credit credits[QueuePair::kMostWrites];
    const std::size_t count = std::min<std::size_t>(posted_ - offered_, QueuePair::kMostWrites);
    if (by.posted + static_cast<int>(count) > Adapter::kSends) return false;
    for (std::size_t i = 0; i < count; ++i) {
      const std::uint64_t number = offered_ + i;
      const Incoming& message = incoming_[number % kDepth];
      credits[i] = {reinterpret_cast<std::uintptr_t>(message.room.data()), message.room.size(),
                    message.remote_key, static_cast<std::uint32_t>(number)};
      writes[i] = {.from = std::as_bytes(std::span(&credits[i], 1)),
                   .to = theirs_.rings + Rings::credit_at(number),
                   .remote_key = theirs_.rings_key,
                   .inlined = true};
    }
    offered_ += count;
    writes[count - 1].rings =
        Ring{Ring::Kind::kCredits, static_cast<std::uint32_t>(offered_ & Ring::kMask)}.immediate();
    if (const auto told = post(by, std::span(writes).first(count), Posted::Kind::kCredits, count);
        !told.ok()) {
      fail_with(told.error().text);
      return true;
    }
  }
  return false;  // nothing that this side waits for
}

bool VerbsLink::send() {
  bool moved = false;
  while (state_ == LinkState::kOpen && written_ < std::min(pushed_, granted_) && send_next())
    moved = true;
  return moved;
}

// False: a queue is full.
bool VerbsLink::send_next() {
  const std::uint64_t number = written_;
  Outgoing& message = outgoing_[number % kDepth];
  Credit credit;
  std::memcpy(&credit, &rings_.bytes[Rings::credit_at(number)], sizeof(credit));
  if (credit.number != static_cast<std::uint32_t>(number)) {
    fail_with(fmt::format("its credit {} says that it is {}", number, credit.number));
    return true;
  }
  const std::size_t bytes = message.body.size();
  const bool fits = bytes <= credit.room;  // else the header says so, and the receiver ends
  const std::size_t parts = fits ? parts_of(bytes, pairs_.size()) : 1;
  const std::size_t part = ((bytes + parts - 1) / parts + kStep - 1) / kStep * kStep;
  for (std::size_t i = 0; i < parts; ++i)
    if (pairs_[(number + i) % pairs_.size()].posted + 2 > Adapter::kSends) return false;
  const Header header{message.record, bytes, message.tag, static_cast<std::uint16_t>(number),
                      static_cast<std::uint16_t>(parts)};
  message.unfinished = static_cast<int>(parts);
  ++written_;
  for (std::size_t i = 0; i < parts; ++i) {
    const std::size_t pair = (number + i) % pairs_.size();
    const std::size_t begin = std::min(i * part, bytes);
    const auto body = message.body.subspan(begin, fits ? std::min(part, bytes - begin) : 0);
    Write writes[2] = {
        {.from = body,
         .local_key = message.local_key,
         .to = credit.address + begin,
         .remote_key = credit.key},
        {.from = std::as_bytes(std::span(&header, 1)),
         .to = theirs_.rings + Rings::header_at(pair, number),
         .remote_key = theirs_.rings_key,
         .rings = Ring{Ring::Kind::kMessage, static_cast<std::uint32_t>(number & Ring::kMask)}
                      .immediate(),
         .inlined = true}};
    const bool with_body = !body.empty();
    const auto sent =
        post(pairs_[pair], std::span(writes).last(with_body ? 2 : 1),
             with_body ? Posted::Kind::kBodyAndHeader : Posted::Kind::kHeader, number % kDepth);
    if (!sent.ok()) {
      fail_with(sent.error().text);
      return true;
    }
  }
  return true;
}

// The last one completes for all of them.
Done VerbsLink::post(Pair& by, std::span<Write> writes, Posted::Kind kind, std::uint64_t value) {
  writes.back().completes = true;
  writes.back().id = Posted{by.slot, kind, static_cast<std::uint32_t>(value)}.id();
  by.posted += static_cast<int>(writes.size());
  return by.pair->post(writes);
}

void VerbsLink::fail_with(const std::string& why, LinkState state) {
  if (is_over(state_)) return;
  state_ = state;
  error_ = fail(Status::kRemoteError, "the connection to rank {} ({}) ended: {}", peer_,
                channel_ ? channel_->address() : "", why);
  drop_pairs();
  if (channel_) channel_->close();
}

void VerbsLink::drop_pairs() {
  for (const Pair& each : pairs_) adapter_.remove_pair(each.slot);
  pairs_.clear();
}

void VerbsLink::close() { fail_with("closed by this rank"); }

}  // namespace rondo::verbs
