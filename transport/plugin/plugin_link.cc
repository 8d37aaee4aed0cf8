// SPDX-License-Identifier: Apache-2.0
#include "transport/plugin/plugin_link.h"

#include <algorithm>
#include <cstring>

#include "base/log.h"
#include "transport/auth/hmac.h"

namespace rondo::plugin {

using net::LinkState;
using net::SideChannel;

PluginLink::PluginLink(const net::LinkName& name, int peer, Endpoint& endpoint)
    : name_(name),
      peer_(peer),
      endpoint_(endpoint),
      send_(endpoint.memory),
      receive_(endpoint.memory),
      watch_(endpoint.plugin.text(), endpoint.vigilance) {
  ++endpoint_.links;
}

Result<std::unique_ptr<PluginLink>> PluginLink::connect(const net::LinkName& name,
                                                        Endpoint& endpoint,
                                                        const Connect& connect) {
  std::unique_ptr<PluginLink> made(new PluginLink(name, name.to, endpoint));
  RONDO_CHECK_OK(made->listen());
  RONDO_TRY(made->channel_, connect(serialize(made->mine_)));
  return made;
}

Result<std::unique_ptr<PluginLink>> PluginLink::accept(Endpoint& endpoint,
                                                       std::unique_ptr<SideChannel> channel) {
  std::unique_ptr<PluginLink> made(new PluginLink(channel->name(), channel->name().from, endpoint));
  RONDO_TRY(made->theirs_, parse_greeting(channel->blob()));
  RONDO_CHECK_OK(made->listen());
  channel->answer(serialize(made->mine_));
  made->channel_ = std::move(channel);
  return made;
}

Status PluginLink::listen() {
  const auth::Digest random = auth::random_digest();
  std::memcpy(&mine_.token, random.data(), sizeof(mine_.token));
  void* listener = nullptr;
  const Plugin& plugin = endpoint_.plugin;
  if (const int result = plugin.listen(endpoint_.context->get(), endpoint_.device.number,
                                       mine_.handle.data(), &listener);
      result != 0 || listener == nullptr) {
    Error error = plugin.failure("listen", result);
    error.text += fmt::format(" on device {} ({}); see `ulimit -n`", endpoint_.device.number,
                              endpoint_.device.name);
    return error;
  }
  listener_ = std::make_unique<Listener>(plugin, listener);
  return ok_status();
}

// Null: try again later.
Result<std::shared_ptr<Connection>> PluginLink::opened(Connection::Kind kind) {
  const Plugin& plugin = endpoint_.plugin;
  const bool sends = kind == Connection::Kind::kSend;
  void* connection = nullptr;
  void* offload = nullptr;
  const int result = sends ? plugin.connect(endpoint_.context->get(), endpoint_.device.number,
                                            theirs_->handle.data(), &connection, &offload)
                           : plugin.table().accept(listener_->get(), &connection, &offload);
  if (result != 0) return plugin.failure(sends ? "connect" : "accept", result);
  if (connection == nullptr) return std::shared_ptr<Connection>();
  auto made = std::make_shared<Connection>(plugin, connection, kind);
  if (offload != nullptr)
    return fail(StatusCode::kSystemError,
                "{}: {}() gives a connection that kernels on the GPU are to drive, which Rondo has "
                "none for: turn that off in the plugin's settings",
                plugin.text(), sends ? "connect" : "accept");
  return made;
}

// True once both directions are connected.
Result<bool> PluginLink::open() {
  if (!out_) {
    RONDO_TRY(out_, opened(Connection::Kind::kSend));
  }
  if (!in_) {
    RONDO_TRY(in_, opened(Connection::Kind::kReceive));
  }
  if (!out_ || !in_) return false;
  RONDO_CHECK_OK(send_.open(out_, theirs_->token));
  RONDO_CHECK_OK(receive_.open(in_, mine_.token));
  listener_.reset();
  RONDO_INFO(kNet, "lane {} to rank {} ({}) by device {} ({}) of {}", name_.lane, peer_,
             channel_->address(), endpoint_.device.number, endpoint_.device.name,
             endpoint_.plugin.text());
  return true;
}

std::optional<net::Request> PluginLink::isend(const CallRecord& record,
                                              std::span<const std::byte> body, net::MemoryKey key,
                                              std::uint32_t tag) {
  if (!body.empty() && endpoint_.memory.find(key, body) == nullptr)
    fail_with(fmt::format("key {} does not belong to memory with the {} bytes to send", key,
                          body.size()));
  if (body.size() > endpoint_.device.max_bytes)
    fail_with(fmt::format("{} bytes are more than {} sends at once ({})", body.size(),
                          endpoint_.plugin.text(), endpoint_.device.max_bytes));
  return send_.push(record, body, key, tag);
}

std::optional<net::Request> PluginLink::irecv(CallRecord& record, std::span<std::byte> room,
                                              net::MemoryKey key) {
  const net::Memory* const memory = room.empty() ? nullptr : endpoint_.memory.find(key, room);
  if (!room.empty() && memory == nullptr)
    fail_with(
        fmt::format("key {} does not belong to memory with room for {} bytes", key, room.size()));
  return receive_.push(record, room, memory, key);
}

net::Completion PluginLink::test(net::Request request) const {
  if (request.sending) return {request.number < send_.sent()};
  return receive_.test(request.number);
}

bool PluginLink::progress() {
  if (is_over(state_)) return false;
  bool moved = follow_channel();
  bool received = false;
  if (state_ == LinkState::kOpen) {
    // A peer that has left reads nothing more.
    if (channel_->state() == SideChannel::State::kOpen) moved |= send_.progress();
    received = receive_.progress();
  }
  moved |= settle(received) || received;
  endpoint_.has_moved |= moved;
  return moved;
}

bool PluginLink::follow_channel() {
  const bool moved = channel_->progress();
  if (state_ != LinkState::kOpening || channel_->state() < SideChannel::State::kOpen ||
      channel_->state() == SideChannel::State::kEnded || watch_.is_troubled())
    return moved;
  if (!theirs_) {
    auto read = parse_greeting(channel_->blob());
    if (!read.ok()) {
      watch_.trouble(read.error());
      return true;
    }
    theirs_ = *read;
  }
  const auto is_open = open();
  if (!is_open.ok()) watch_.trouble(is_open.error());
  if (!is_open.ok() || !*is_open) return moved;
  state_ = LinkState::kOpen;
  return true;
}

// True if the link has ended.
bool PluginLink::settle(bool received) {
  if (is_over(state_)) return true;
  if (receive_.error()) watch_.trouble(*receive_.error());
  if (channel_->state() == SideChannel::State::kOpen && send_.error())
    watch_.trouble(*send_.error());  // a peer that has left reads nothing more
  const auto verdict = watch_.look(*channel_, {.received = receive_.received(),
                                               .has_just_come = received,
                                               .offers_room = !receive_.is_idle(),
                                               .has_unsent = !send_.is_empty()});
  if (verdict) fail_with(verdict->why, verdict->state);
  return verdict.has_value();
}

void PluginLink::fail_with(const std::string& why, LinkState state) {
  if (is_over(state_)) return;
  state_ = state;
  error_ = fail(StatusCode::kRemoteError, "the connection to rank {} ({}) ended: {}", peer_,
                channel_ ? channel_->address() : "", why);
  if (watch_.is_of_network()) RONDO_WARN("{}", error_->text);
  if (channel_) channel_->leave(net::LinkWatch::kGaveUp);
  --endpoint_.links;
  send_.close();
  receive_.close();
  out_.reset();
  in_.reset();
  listener_.reset();
}

void PluginLink::close() {
  if (is_over(state_)) return;
  if (channel_) channel_->leave(send_.sent());
  fail_with("closed by this rank");
}

}  // namespace rondo::plugin
