// SPDX-License-Identifier: Apache-2.0
#include "transport/ucx/ucp/ucx_link.h"

#include "base/log.h"

namespace rondo::ucx {

using net::LinkState;
using net::SideChannel;

namespace {

// Limits of the waits at a close: for messages in flight, then for UCX to release memory.
constexpr std::chrono::milliseconds kOnItsWay{100}, kLetGo{5'000};

ucs_memory_type_t kind_of(const net::Memory* memory) {
  return memory != nullptr && memory->kind == net::Memory::Kind::kDevice ? UCS_MEMORY_TYPE_CUDA
                                                                         : UCS_MEMORY_TYPE_HOST;
}

}  // namespace

UcxLink::UcxLink(const net::LinkName& name, int peer, Hub& hub)
    : name_(name),
      peer_(peer),
      hub_(hub),
      sides_(std::make_unique<Sides>(*hub.worker)),
      token_(hub.worker->add({&sides_->send, &sides_->receive})),
      watch_("UCX", hub.vigilance) {}

Result<std::unique_ptr<UcxLink>> UcxLink::connect(const net::LinkName& name, Hub& hub,
                                                  const Connect& connect) {
  std::unique_ptr<UcxLink> made(new UcxLink(name, name.to, hub));
  RONDO_TRY(made->channel_, connect(serialize(hub.worker->greeting(made->token_))));
  return made;
}

Result<std::unique_ptr<UcxLink>> UcxLink::accept(Hub& hub, std::unique_ptr<SideChannel> channel) {
  std::unique_ptr<UcxLink> made(new UcxLink(channel->name(), channel->name().from, hub));
  made->channel_ = std::move(channel);
  if (Status connected = made->meet(); !connected.ok()) {
    (void)made->channel_->answer(serialize_refusal(connected.error().text));
    return connected.error();
  }
  if (!made->channel_->answer(serialize(hub.worker->greeting(made->token_))))
    return fail(StatusCode::kSystemError,
                "UCX's address of this rank is too long for the side channel: give UCX fewer "
                "devices (UCX_NET_DEVICES)");
  return made;
}

// Called once the peer's blob has arrived.
Status UcxLink::meet() {
  RONDO_TRY(const Greeting theirs, parse_greeting(channel_->blob()));
  RONDO_TRY(endpoint_, hub_.worker->endpoint_to(theirs));
  their_token_ = theirs.token;
  return ok_status();
}

void UcxLink::open() {
  sides_->send.open(endpoint_, their_token_);
  sides_->receive.open(endpoint_, their_token_);
  state_ = LinkState::kOpen;
  RONDO_INFO(kNet, "lane {} to rank {} ({}) by UCX {}", name_.lane, peer_, channel_->address(),
             hub_.worker->ucp().version());
}

std::optional<net::Request> UcxLink::isend(const CallRecord& record,
                                           std::span<const std::byte> body, net::MemoryKey key,
                                           std::uint32_t tag) {
  const net::Memory* const memory = body.empty() ? nullptr : hub_.memory.find(key, body);
  if (!body.empty() && memory == nullptr)
    fail_with(fmt::format("key {} does not belong to memory with the {} bytes to send", key,
                          body.size()));
  return sides_->send.push(record, body, kind_of(memory), tag);
}

std::optional<net::Request> UcxLink::irecv(CallRecord& record, std::span<std::byte> room,
                                           net::MemoryKey key) {
  const net::Memory* const memory = room.empty() ? nullptr : hub_.memory.find(key, room);
  if (!room.empty() && memory == nullptr)
    fail_with(
        fmt::format("key {} does not belong to memory with room for {} bytes", key, room.size()));
  return sides_->receive.push(record, room, kind_of(memory));
}

net::Completion UcxLink::test(net::Request request) const {
  if (request.sending) return {request.number < sides_->send.sent()};
  return sides_->receive.test(request.number);
}

bool UcxLink::progress() {
  if (is_over(state_)) return false;
  bool moved = follow_channel();
  bool received = false;
  if (state_ == LinkState::kOpen) {
    // A peer that has left receives no more messages.
    if (channel_->state() == SideChannel::State::kOpen) moved |= sides_->send.progress();
    received = sides_->receive.progress();
  }
  return settle(received) || received || moved;
}

bool UcxLink::follow_channel() {
  const bool moved = channel_->progress();
  if (state_ != LinkState::kOpening || channel_->state() < SideChannel::State::kOpen ||
      channel_->state() == SideChannel::State::kEnded || watch_.is_troubled())
    return moved;
  if (!endpoint_) {
    if (const Status connected = meet(); !connected.ok()) {
      watch_.trouble(connected.error());
      fail_with(connected.error().text, LinkState::kEnded, connected.code());
    }
    return true;
  }
  if (!endpoint_->is_connected()) return moved;
  open();
  return true;
}

// True: the link has ended.
bool UcxLink::settle(bool received) {
  if (is_over(state_)) return true;
  const SendSide& send = sides_->send;
  const ReceiveSide& receive = sides_->receive;
  if (receive.error()) watch_.trouble(*receive.error());
  if (channel_->state() == SideChannel::State::kOpen && send.error()) watch_.trouble(*send.error());
  if (endpoint_ && endpoint_->failure() != UCS_OK)
    watch_.trouble(hub_.worker->ucp().failure("the endpoint", endpoint_->failure()));
  const auto verdict = watch_.look(*channel_, {.received = receive.received(),
                                               .has_just_come = received,
                                               .offers_room = !receive.is_idle(),
                                               .has_unsent = !send.is_empty()});
  if (verdict) fail_with(verdict->why, verdict->state);
  return verdict.has_value();
}

void UcxLink::fail_with(const std::string& why, LinkState state, StatusCode status) {
  if (is_over(state_)) return;
  state_ = state;
  error_ = fail(status, "the connection to rank {} ({}) ended: {}", peer_,
                channel_ ? channel_->address() : "", why);
  if (watch_.is_of_network()) RONDO_WARN("{}", error_->text);
  release();
  if (channel_) channel_->leave(net::LinkWatch::kGaveUp);
}

// Afterwards UCX uses no memory of this link.
void UcxLink::release() {
  Worker& worker = *hub_.worker;
  worker.remove(token_);
  if (endpoint_ && !sides_->send.is_confirmed()) endpoint_->expect_silence();
  const auto is_free = [&] { return !sides_->is_pending(); };
  const bool peer_is_there = channel_ && channel_->state() == SideChannel::State::kOpen;
  if (!worker.until(peer_is_there ? kOnItsWay : std::chrono::milliseconds(0), is_free)) {
    endpoint_->shut();
    if (!worker.until(kLetGo, is_free)) {
      RONDO_WARN("UCX still uses memory of lane {} to rank {}, {} ms after the link's end",
                 name_.lane, peer_, kLetGo.count());
      (void)new auto(std::move(sides_));  // leaked: UCX can still call back
      sides_ = std::make_unique<Sides>(worker);
    }
  }
  sides_->send.close();
  sides_->receive.close();
  endpoint_.reset();
}

void UcxLink::close() {
  if (is_over(state_)) return;
  if (channel_) channel_->leave(sides_->send.sent());
  fail_with("closed by this rank");
}

}  // namespace rondo::ucx
