// SPDX-License-Identifier: Apache-2.0
#include "transport/ucx/ucp/sides.h"

#include <algorithm>
#include <cassert>
#include <cstring>

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
  assert(endpoint != nullptr && endpoint_ == nullptr);
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
  assert(sent_ <= posted_ && posted_ <= pushed_ && pushed_ - sent_ <= kDepth);
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

std::optional<net::Request> ReceiveSide::push(CallRecord& record, std::span<std::byte> room,
                                              ucs_memory_type_t memory) {
  if (pushed_ - received_ == kDepth) return std::nullopt;
  Message& message = messages_[pushed_ % kDepth];
  message.record = &record;
  message.room = room;
  message.memory = memory;
  message.has_come = false;
  return net::Request{pushed_++, false};
}

void ReceiveSide::open(std::shared_ptr<Endpoint> endpoint, std::uint64_t token) {
  endpoint_ = std::move(endpoint);
  grant_.token = token;
}

bool ReceiveSide::progress() {
  if (!endpoint_ || error_) return false;
  const bool received = settle();
  if (grant_.offered != pushed_) grant();
  return received;
}

bool ReceiveSide::settle() {
  const std::uint64_t before = received_;
  for (; received_ < pushed_; ++received_) {
    const Message& message = messages_[received_ % kDepth];
    if (!message.has_come) break;
    if (message.receiving.has_failed())
      error_ = ucp_.failure("ucp_am_recv_data_nbx", message.receiving.code());
    if (!message.receiving.is_done()) break;
    *message.record = message.header.record;
  }
  return received_ != before;
}

// One at a time; the next one includes the receives that were posted meanwhile.
void ReceiveSide::grant() {
  if (granting_.is_pending() || endpoint_->failure() != UCS_OK) return;
  grant_.offered = pushed_;
  grant_.received = received_;
  const ucp_request_param_t param = granting_.sending(ucp_);
  granting_.begin(
      ucp_.am_send_nbx(endpoint_->get(), kGrantId, &grant_, sizeof(grant_), nullptr, 0, &param));
  if (granting_.has_failed()) error_ = ucp_.failure("ucp_am_send_nbx", granting_.code());
}

ucs_status_t ReceiveSide::take(const Header& header, void* data, std::size_t bytes,
                               bool by_rendezvous) {
  if (error_ || !endpoint_) return UCS_OK;
  Message& message = messages_[header.number % kDepth];
  if (header.number - received_ >= pushed_ - received_ || message.has_come) {
    error_ =
        fail(StatusCode::kRemoteError, "it sent slot {}, which was not offered", header.number);
    return UCS_OK;
  }
  if (bytes > message.room.size()) {
    error_ = fail(StatusCode::kRemoteError, "it sent {} bytes in slot {}, where at most {} fit",
                  bytes, header.number, message.room.size());
    return UCS_OK;
  }
  message.has_come = true;
  message.header = header;
  message.bytes = bytes;
  if (!by_rendezvous && message.memory == UCS_MEMORY_TYPE_HOST) {
    if (bytes != 0) std::memcpy(message.room.data(), data, bytes);
    message.receiving.begin(nullptr);
    return UCS_OK;
  }
  const ucp_request_param_t param = message.receiving.receiving(ucp_, message.memory);
  message.receiving.begin(ucp_.am_recv_data_nbx(worker_, data, message.room.data(), bytes, &param));
  return UCS_INPROGRESS;  // the data is UCX's again
}

net::Completion ReceiveSide::test(std::uint64_t number) const {
  if (number >= received_) return {};
  const Message& message = messages_[number % kDepth];
  return {true, message.bytes, message.header.tag};
}

bool ReceiveSide::is_pending() const {
  return granting_.is_pending() ||
         std::any_of(messages_.begin(), messages_.end(),
                     [](const Message& one) { return one.receiving.is_pending(); });
}

}  // namespace rondo::ucx
