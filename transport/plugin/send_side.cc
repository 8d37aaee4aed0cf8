#include "transport/plugin/send_side.h"

namespace rondo::plugin {

std::optional<net::Request> SendSide::push(const CallRecord& record,
                                           std::span<const std::byte> body, net::MemoryKey key,
                                           std::uint32_t tag) {
  if (pushed_ - sent_ == kDepth) return std::nullopt;
  messages_[pushed_ % kDepth] = {record, body, key, tag};
  return net::Request{pushed_++, true};
}

Status SendSide::open(std::shared_ptr<Connection> connection, std::uint64_t token) {
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

}  // namespace rondo::plugin
