#include "transport/ucx/ucp/send_side.h"

#include <algorithm>

namespace rondo::ucx {

std::optional<net::Request> SendSide::push(const CallRecord& record,
                                           std::span<const std::byte> body,
                                           ucs_memory_type_t memory, std::uint32_t tag) {
  if (pushed_ - sent_ == kDepth) return std::nullopt;
  Message& message = messages_[pushed_ % kDepth];
  message.header = {0, pushed_, tag, 0, record};
  message.body = body;
  message.memory = memory;
  return net::Request{pushed_++, true};
}

void SendSide::open(std::shared_ptr<Endpoint> endpoint, std::uint64_t token) {
  endpoint_ = std::move(endpoint);
  token_ = token;
}

void SendSide::take(const Grant& grant) {
  if (grant.offered - grant.received > kDepth || grant.received > posted_) {
    if (!error_)
      error_ =
          fail(StatusCode::kRemoteError, "it offers {} slots and has {}, of {} that it was sent",
               grant.offered, grant.received, posted_);
    return;
  }
  granted_ = std::max(granted_, grant.offered);
  confirmed_ = std::max(confirmed_, grant.received);
}

bool SendSide::progress() {
  if (!endpoint_ || error_ || is_empty()) return false;
  const bool posted = post();
  return settle() || posted;
}

bool SendSide::post() {
  const std::uint64_t before = posted_;
  for (; posted_ < std::min(pushed_, granted_) && endpoint_->failure() == UCS_OK; ++posted_) {
    Message& message = messages_[posted_ % kDepth];
    message.header.token = token_;
    const ucp_request_param_t param = message.sending.sending(ucp_, message.memory);
    message.sending.begin(ucp_.am_send_nbx(endpoint_->get(), kMessageId, &message.header,
                                           sizeof(message.header), message.body.data(),
                                           message.body.size(), &param));
  }
  return posted_ != before;
}

bool SendSide::settle() {
  const std::uint64_t before = sent_;
  for (; sent_ < posted_ && !error_; ++sent_) {
    const Operation& sending = messages_[sent_ % kDepth].sending;
    if (sending.has_failed()) error_ = ucp_.failure("ucp_am_send_nbx", sending.code());
    if (!sending.is_done()) break;
  }
  return sent_ != before;
}

bool SendSide::is_pending() const {
  return std::any_of(messages_.begin(), messages_.end(),
                     [](const Message& one) { return one.sending.is_pending(); });
}

}  // namespace rondo::ucx
