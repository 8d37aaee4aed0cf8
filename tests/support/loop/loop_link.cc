// SPDX-License-Identifier: Apache-2.0
#include "tests/support/loop/loop_link.h"

#include <fmt/format.h>
#include <unistd.h>

namespace rondo::test {

using net::LinkState;
using net::SideChannel;

namespace {

constexpr std::uint32_t kMagic = 0x706f6f4c;

}  // namespace

struct LoopLink::Rings {
  // A posted receive. Key 0: it has no bytes.
  struct Credit {
    std::uint64_t number, key, offset, room;
  };
  // A written message.
  struct Header {
    std::uint64_t number, bytes;
    std::uint32_t tag;
    CallRecord record;
  };
  template <class T>
  struct Ring {
    alignas(64) std::atomic<std::uint64_t> written;
    T entries[net::Link::kDepth];
  };

  Ring<Credit> credits;
  Ring<Header> headers;
};

Bytes LoopSeat::encode() const {
  ByteWriter out;
  out.put(kMagic);
  out.put(pid);
  out.put(rings);
  out.put(queue);
  out.put_string(bell);
  return out.take();
}

std::optional<LoopSeat> LoopSeat::decode(ByteSpan bytes) {
  ByteReader in(bytes);
  LoopSeat seat;
  const auto magic = in.get<std::uint32_t>();
  seat.pid = in.get<std::int32_t>();
  seat.rings = in.get<std::int32_t>();
  seat.queue = in.get<std::int32_t>();
  seat.bell = in.get_string();
  const bool sound = in.finished() && magic == kMagic && seat.pid > 0 && seat.rings >= 0 &&
                     seat.queue >= 0 && !seat.bell.empty() && seat.bell.size() <= 100;
  return sound ? std::optional(seat) : std::nullopt;
}

LoopLink::LoopLink(const net::LinkName& name, LoopMemory& memory, CompletionQueue& queue,
                   SharedFile rings)
    : name_(name), memory_(memory), queue_(queue), peer_(name.to), rings_(std::move(rings)) {}

LoopSeat LoopLink::seat() const {
  return {::getpid(), rings_.fd(), queue_.file(), queue_.address()};
}

Result<std::unique_ptr<LoopLink>> LoopLink::connect(const net::LinkName& name, LoopMemory& memory,
                                                    CompletionQueue& queue,
                                                    const Connect& connect) {
  RONDO_TRY(SharedFile rings, SharedFile::make(sizeof(Rings)));
  std::unique_ptr<LoopLink> made(new LoopLink(name, memory, queue, std::move(rings)));
  RONDO_TRY(made->channel_, connect(made->seat().encode()));
  return made;
}

Result<std::unique_ptr<LoopLink>> LoopLink::accept(LoopMemory& memory, CompletionQueue& queue,
                                                   std::unique_ptr<SideChannel> channel) {
  RONDO_TRY(SharedFile rings, SharedFile::make(sizeof(Rings)));
  std::unique_ptr<LoopLink> made(new LoopLink(channel->name(), memory, queue, std::move(rings)));
  made->peer_ = channel->name().from;
  made->channel_ = std::move(channel);
  made->open();
  if (made->state_ != LinkState::kOpen) return *made->error_;
  made->channel_->answer(made->seat().encode());
  return made;
}

// The peer's blob has arrived.
void LoopLink::open() {
  const auto theirs = LoopSeat::decode(channel_->blob());
  if (!theirs) return fail_with("its greeting does not belong to this network");
  theirs_ = *theirs;
  auto rings = SharedFile::open(theirs_.pid, theirs_.rings, sizeof(Rings));
  if (!rings.ok()) return fail_with(rings.error().text);
  their_rings_.emplace(std::move(rings).value());
  auto queue = RemoteQueue::open(theirs_.pid, theirs_.queue, theirs_.bell);
  if (!queue.ok()) return fail_with(queue.error().text);
  their_queue_.emplace(std::move(queue).value());
  state_ = LinkState::kOpen;
}

std::optional<net::Request> LoopLink::isend(const CallRecord& record,
                                            std::span<const std::byte> body, net::MemoryKey key,
                                            std::uint32_t tag) {
  if (pushed_ - sent_ == kDepth) return std::nullopt;
  if (!body.empty() && !memory_.offset_of(key, body))
    fail_with(fmt::format("key {} does not belong to memory with the {} bytes to send", key,
                          body.size()));
  outgoing_[pushed_ % kDepth] = {record, body, tag, key};
  return net::Request{pushed_++, true};
}

std::optional<net::Request> LoopLink::irecv(CallRecord& record, std::span<std::byte> room,
                                            net::MemoryKey key) {
  if (posted_ - received_ == kDepth) return std::nullopt;
  const auto offset = room.empty() ? std::optional<std::uint64_t>(0) : memory_.offset_of(key, room);
  if (!offset)
    fail_with(
        fmt::format("key {} does not belong to memory with room for {} bytes", key, room.size()));
  incoming_[posted_ % kDepth] = {&record, room.size(), offset.value_or(0), key, 0, 0};
  return net::Request{posted_++, false};
}

Result<net::RemoteKey> LoopLink::unpack_key(std::span<const std::byte> packed) {
  const auto region = PackedRegion::decode(packed);
  if (!region) return fail(StatusCode::kRemoteError, "{} bytes name no memory", packed.size());
  regions_.emplace(++last_region_, *region);
  return last_region_;
}

std::optional<net::Request> LoopLink::iput(const net::Put& put) {
  if (asked_ - put_ == kDepth) return std::nullopt;
  if (!put.body.empty() && !memory_.offset_of(put.key, put.body))
    fail_with(fmt::format("key {} does not belong to memory with the {} bytes to put", put.key,
                          put.body.size()));
  puts_[asked_ % kDepth] = put;
  return net::Request{.number = asked_++, .sending = true, .putting = true};
}

bool LoopLink::put() {
  const std::uint64_t before = put_;
  for (; put_ < asked_ && state_ == LinkState::kOpen; ++put_) {
    const net::Put& now = puts_[put_ % kDepth];
    const auto write = [&](net::RemoteKey key, std::uint64_t offset,
                           std::span<const std::byte> bytes) -> std::optional<std::string> {
      const auto region = regions_.find(key);
      if (region == regions_.end()) return "a put into memory that the peer has not told of";
      return their_memory_.put(region->second, offset, bytes);
    };
    std::optional<std::string> wrong;
    if (!now.body.empty()) wrong = write(now.to, now.offset, memory_.readable(now.key, now.body));
    if (!wrong && now.word_in)
      wrong = write(*now.word_in, now.word_offset, std::as_bytes(std::span(&now.word, 1)));
    if (wrong) return fail_with(*wrong), true;
  }
  return put_ != before;
}

net::Completion LoopLink::test(net::Request request) const {
  if (request.putting) return {request.number < put_};
  if (request.sending) return {request.number < sent_};
  if (request.number >= received_) return {};
  const Incoming& message = incoming_[request.number % kDepth];
  return {true, message.bytes, message.tag};
}

bool LoopLink::progress() {
  if (is_over(state_)) return false;
  const bool closed = follow_channel();
  if (state_ != LinkState::kOpen) return closed;
  bool moved = offer();
  moved |= send();
  moved |= put();
  moved |= receive();
  if (state_ != LinkState::kOpen) return true;
  // Everything that was written before the close has arrived.
  if (channel_->state() == SideChannel::State::kClosed)
    fail_with(channel_->why(), LinkState::kClosed);
  if (channel_->state() == SideChannel::State::kEnded) fail_with(channel_->why());
  return moved || closed;
}

bool LoopLink::follow_channel() {
  const bool moved = channel_->progress();
  if (state_ != LinkState::kOpening) return moved;
  if (channel_->state() == SideChannel::State::kOpen) open();
  if (channel_->state() == SideChannel::State::kEnded) fail_with(channel_->why());
  return moved;
}

bool LoopLink::offer() {
  Rings::Ring<Rings::Credit>& ring = their_rings_->as<Rings>().credits;
  if (offered_ == posted_) return false;
  for (; offered_ < posted_; ++offered_) {
    const Incoming& message = incoming_[offered_ % kDepth];
    ring.entries[offered_ % kDepth] = {offered_, message.key, message.offset, message.room};
  }
  ring.written.store(offered_, std::memory_order_release);
  their_queue_->ring();
  return false;  // this side waits for nothing
}

bool LoopLink::send() {
  const Rings::Ring<Rings::Credit>& credits = rings_.as<Rings>().credits;
  Rings::Ring<Rings::Header>& headers = their_rings_->as<Rings>().headers;
  const std::uint64_t before = sent_;
  while (sent_ < pushed_ && sent_ < credits.written.load(std::memory_order_acquire)) {
    const Rings::Credit credit = credits.entries[sent_ % kDepth];
    const Outgoing& message = outgoing_[sent_ % kDepth];
    if (credit.number != sent_) {
      fail_with(fmt::format("its credit {} has the number {}", sent_, credit.number));
      break;
    }
    const std::uint64_t bytes = message.body.size();
    if (bytes != 0 && bytes <= credit.room) {
      if (const auto wrong = their_memory_.write(theirs_.pid, credit.key, credit.offset,
                                                 memory_.readable(message.key, message.body))) {
        fail_with(*wrong);
        break;
      }
    }
    headers.entries[sent_ % kDepth] = {sent_, bytes, message.tag, message.record};
    headers.written.store(++sent_, std::memory_order_release);
  }
  if (sent_ == before) return false;
  their_queue_->ring();
  return true;
}

bool LoopLink::receive() {
  const Rings::Ring<Rings::Header>& headers = rings_.as<Rings>().headers;
  const std::uint64_t before = received_;
  while (received_ < offered_ && received_ < headers.written.load(std::memory_order_acquire)) {
    const Rings::Header header = headers.entries[received_ % kDepth];
    Incoming& message = incoming_[received_ % kDepth];
    if (header.number != received_) {
      fail_with(fmt::format("it sent an invalid slot {}", received_));
      break;
    }
    if (header.bytes > message.room) {
      fail_with(fmt::format("it sent {} bytes in slot {}, where at most {} fit", header.bytes,
                            received_, message.room));
      break;
    }
    if (header.bytes != 0) {
      if (const auto flushed = memory_.flush(message.key, message.offset, header.bytes);
          !flushed.ok()) {
        fail_with(flushed.error().text);
        break;
      }
    }
    *message.record = header.record;
    message.bytes = header.bytes;
    message.tag = header.tag;
    ++received_;
  }
  return received_ != before;
}

void LoopLink::fail_with(const std::string& why, LinkState state) {
  if (is_over(state_)) return;
  state_ = state;
  error_ = fail(StatusCode::kRemoteError, "the connection to rank {} ({}) ended: {}", peer_,
                channel_ ? channel_->address() : "", why);
  if (channel_) channel_->close();
}

void LoopLink::close() { fail_with("closed by this rank"); }

}  // namespace rondo::test
