// SPDX-License-Identifier: Apache-2.0
#include "transport/plugin/sides.h"

#include <algorithm>
#include <cassert>
#include <limits>

namespace rondo::plugin {

std::optional<net::Request> SendSide::push(const CallRecord& record,
                                           std::span<const std::byte> body, net::MemoryKey key,
                                           std::uint32_t tag) {
  if (pushed_ - sent_ == kDepth) return std::nullopt;
  messages_[pushed_ % kDepth] = {record, body, key, tag};
  return net::Request{pushed_++, true};
}

Status SendSide::open(std::shared_ptr<Connection> connection, std::uint64_t token) {
  assert(connection != nullptr && connection_ == nullptr);
  connection_ = std::move(connection);
  token_ = token;
  bodies_ = std::make_unique<PluginMemory::OfLink>(memory_, connection_);
  headers_ = std::make_unique<Headers>();
  RONDO_TRY(registered_,
            Registration::make(connection_, {std::as_writable_bytes(std::span(*headers_))}));
  return ok_status();
}

bool SendSide::progress() {
  if (!connection_ || error_ || is_empty()) return false;
  const bool posted = post();
  return settle() || posted;
}

bool SendSide::post() {
  assert(sent_ <= posted_ && posted_ <= pushed_ && pushed_ - sent_ <= kDepth);
  const std::uint64_t before = posted_;
  while (posted_ < pushed_ && posted_ - sent_ < kWindow && post_next(messages_[posted_ % kDepth]))
    ++posted_;
  return posted_ != before;
}

// False: the plugin cannot take the whole message now.
bool SendSide::post_next(Message& message) {
  if (!message.header.is_posted()) {
    Header& header = (*headers_)[posted_ % kWindow];
    header = {token_, posted_, message.content.size(), message.tag, 0, message.record};
    if (!submit(message.header, std::as_bytes(std::span(&header, 1)), registered_->get()))
      return false;
  }
  if (message.content.empty())
    return submit(message.body, std::as_bytes(std::span(*headers_)).first(0), registered_->get());
  const auto memory = bodies_->named(message.key);
  if (!memory.ok()) {
    error_ = memory.error();
    return false;
  }
  return submit(message.body, message.content, *memory);
}

bool SendSide::submit(Part& part, std::span<const std::byte> bytes, void* memory) {
  assert(part.request == nullptr && !part.is_done);
  const Plugin& plugin = connection_->plugin();
  const int result = plugin.isend(connection_->get(), bytes, memory, &part.request);
  if (result != 0) error_ = plugin.failure("isend", result);
  return result == 0 && part.request != nullptr;
}

bool SendSide::settle() {
  const std::uint64_t before = sent_;
  while (sent_ < pushed_ && !error_) {
    Message& message = messages_[sent_ % kDepth];
    if (!finish(message.header) || !finish(message.body)) break;
    ++sent_;
  }
  return sent_ != before;
}

bool SendSide::finish(Part& part) {
  if (part.is_done || part.request == nullptr) return part.is_done;
  const Plugin& plugin = connection_->plugin();
  int is_done = 0;
  const int result = plugin.table().test(part.request, &is_done, &part.bytes);
  if (result != 0) error_ = plugin.failure("test", result);
  part.is_done = result == 0 && is_done != 0;
  return part.is_done;
}

void SendSide::close() {
  bodies_.reset();
  registered_.reset();
  connection_.reset();
}

std::optional<net::Request> ReceiveSide::push(CallRecord& record, std::span<std::byte> room,
                                              const net::Memory* memory, net::MemoryKey key) {
  if (pushed_ - received_ == kDepth) return std::nullopt;
  const bool flushes = memory != nullptr && memory->kind != net::Memory::Kind::kHost;
  messages_[pushed_ % kDepth] = {&record, room, key, flushes};
  return net::Request{pushed_++, false};
}

Status ReceiveSide::open(std::shared_ptr<Connection> connection, std::uint64_t token) {
  assert(connection != nullptr && connection_ == nullptr);
  connection_ = std::move(connection);
  token_ = token;
  bodies_ = std::make_unique<PluginMemory::OfLink>(memory_, connection_);
  headers_ = std::make_unique<Headers>();
  RONDO_TRY(registered_,
            Registration::make(connection_, {std::as_writable_bytes(std::span(*headers_))}));
  return ok_status();
}

bool ReceiveSide::progress() {
  if (!connection_ || error_) return false;
  post();
  const std::uint64_t before = received_;
  while (received_ < pushed_ && !error_ && settle_next(messages_[received_ % kDepth])) ++received_;
  return received_ != before;
}

void ReceiveSide::post() {
  assert(received_ <= posted_ && posted_ <= pushed_ && pushed_ - received_ <= kDepth);
  while (posted_ < pushed_ && posted_ - received_ < kWindow && !error_ &&
         post_next(messages_[posted_ % kDepth]))
    ++posted_;
}

// False: the plugin cannot take the whole message now.
bool ReceiveSide::post_next(Message& message) {
  const auto headers = std::as_writable_bytes(std::span(*headers_));
  const auto header = headers.subspan(posted_ % kWindow * sizeof(Header), sizeof(Header));
  if (!message.header.is_posted() && !submit(message.header, header, registered_->get()))
    return false;
  if (message.room.empty()) return submit(message.body, headers.first(0), registered_->get());
  const auto memory = bodies_->named(message.key);
  if (!memory.ok()) {
    error_ = memory.error();
    return false;
  }
  constexpr std::size_t kMax = std::numeric_limits<int>::max();
  return submit(message.body, message.room.first(std::min(message.room.size(), kMax)), *memory);
}

bool ReceiveSide::submit(Part& part, std::span<std::byte> room, void* memory) {
  const Plugin& plugin = connection_->plugin();
  const int result = plugin.irecv(connection_->get(), room, memory, &part.request);
  if (result != 0) error_ = plugin.failure("irecv", result);
  return result == 0 && part.request != nullptr;
}

// True: the message has arrived completely.
bool ReceiveSide::settle_next(Message& message) {
  const Header& header = (*headers_)[received_ % kWindow];
  const bool is_new = !message.header.is_done;
  if (!finish(message.header) || (is_new && !check(message, header))) return false;
  if (!finish(message.body)) return false;
  if (message.body.bytes >= 0 && static_cast<std::uint64_t>(message.body.bytes) != header.bytes) {
    error_ = fail(StatusCode::kRemoteError, "{} says that slot {} has {} bytes; its header says {}",
                  connection_->plugin().text(), received_, message.body.bytes, header.bytes);
    return false;
  }
  if (message.flushes && header.bytes != 0 && !flush(message)) return false;
  *message.record = header.record;
  message.bytes = header.bytes;
  message.tag = header.tag;
  return true;
}

bool ReceiveSide::check(const Message& message, const Header& header) {
  const bool whole = message.header.bytes < 0 || message.header.bytes == sizeof(Header);
  if (!whole || header.token != token_ || header.number != received_) {
    error_ = fail(StatusCode::kRemoteError, "it sent an invalid slot {}", received_);
  } else if (header.bytes > message.room.size()) {
    error_ = fail(StatusCode::kRemoteError, "it sent {} bytes in slot {}, where at most {} fit",
                  header.bytes, received_, message.room.size());
  }
  return !error_;
}

bool ReceiveSide::flush(Message& message) {
  const Plugin& plugin = connection_->plugin();
  if (plugin.table().flush == nullptr) return true;
  if (!message.flush.is_posted()) {
    const auto body = message.room.first((*headers_)[received_ % kWindow].bytes);
    const auto memory = bodies_->named(message.key);
    const int result =
        memory.ok() ? plugin.iflush(connection_->get(), body, *memory, &message.flush.request) : 0;
    if (!memory.ok()) error_ = memory.error();
    if (result != 0) error_ = plugin.failure("iflush", result);
    if (error_) return false;
    message.flush.is_done = message.flush.request == nullptr;  // no flush needed
  }
  return finish(message.flush);
}

bool ReceiveSide::finish(Part& part) {
  if (part.is_done || part.request == nullptr) return part.is_done;
  const Plugin& plugin = connection_->plugin();
  int is_done = 0;
  const int result = plugin.table().test(part.request, &is_done, &part.bytes);
  if (result != 0) error_ = plugin.failure("test", result);
  part.is_done = result == 0 && is_done != 0;
  return part.is_done;
}

net::Completion ReceiveSide::test(std::uint64_t number) const {
  if (number >= received_) return {};
  const Message& message = messages_[number % kDepth];
  return {true, message.bytes, message.tag};
}

void ReceiveSide::close() {
  bodies_.reset();
  registered_.reset();
  connection_.reset();
}

}  // namespace rondo::plugin
