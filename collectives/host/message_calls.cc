// SPDX-License-Identifier: Apache-2.0
#include "collectives/host/message_calls.h"

#include <algorithm>
#include <cassert>
#include <cstring>

#include "collectives/profiler/call_events.h"
#include "kernels/host/announcer.h"

namespace rondo {
namespace {

std::size_t bytes_of(const Call& call) { return call.record.count * size_of(call.record.type); }

// Messages of a rank to itself: the k-th send matches the k-th receive.
Status run_self(std::span<const Call> calls, int rank) {
  const auto to_self = [&](const Call& call) {
    return is_point_to_point(call) && call.peer == rank;
  };
  if (std::none_of(calls.begin(), calls.end(), to_self)) return ok_status();
  std::vector<const Call*> sends, receives;
  for (const Call& call : calls) {
    if (!is_point_to_point(call) || call.peer != rank) continue;
    (call.record.collective == Collective::kSend ? sends : receives).push_back(&call);
  }
  if (sends.size() > receives.size())
    return fail(StatusCode::kInvalidUsage, "Trying to send to self without a matching recv");
  if (receives.size() > sends.size())
    return fail(StatusCode::kInvalidUsage, "Trying to recv to self without a matching send");
  for (std::size_t i = 0; i < sends.size(); ++i) {
    if (bytes_of(*sends[i]) != bytes_of(*receives[i]))
      return fail(StatusCode::kInvalidUsage, "rank {} sends itself {} and receives {}", rank,
                  to_string(sends[i]->record), to_string(receives[i]->record));
    if (sends[i]->send != receives[i]->receive && bytes_of(*sends[i]) > 0)
      std::memmove(receives[i]->receive, sends[i]->send, bytes_of(*sends[i]));
  }
  return ok_status();
}

}  // namespace

Status MessageCalls::run(std::span<const Call> calls, const CallRecord* whole) {
  const profiler::MessageEvents events(whole == nullptr ? context_.host_events() : nullptr, calls);
  RONDO_CHECK_OK(run_self(calls, members_.rank));
  messages_.clear();
  for (const Call& call : calls) {
    if (!is_point_to_point(call) || call.peer == members_.rank) continue;
    assert(call.peer >= 0 && call.peer < members_.size);
    host::Message message;
    message.is_send = call.record.collective == Collective::kSend;
    message.record = whole != nullptr ? *whole : call.record;
    message.record.count = call.record.count;
    message.tag = whole != nullptr ? host_.call_tag() : 0;
    message.bytes = bytes_of(call);
    message.buffer = message.is_send ? static_cast<std::byte*>(const_cast<void*>(call.send))
                                     : static_cast<std::byte*>(call.receive);
    RONDO_TRY(message.connection, message.is_send
                                      ? connections_->to(call.peer, kPointToPointLane)
                                      : connections_->from(call.peer, kPointToPointLane));
    messages_.push_back(message);
    if (whole == nullptr) record(call);
  }
  if (whole != nullptr) {
    call_.record = *whole;
  } else {
    call_.record = messages_.empty() ? CallRecord{} : messages_.front().record;
  }
  const bool ok = host::run_messages(host_, messages_);
  call_.record = CallRecord{};
  if (!ok) return faults_.why_it_ended();
  RONDO_CHECK_OK(remote_.flush());
  if (whole == nullptr) host_.recorder.end(StatusCode::kSuccess);
  return ok_status();
}

// Messages are not announced, so they enter the black box here.
void MessageCalls::record(const Call& message) {
  CallRecord record = message.record;
  record.root = message.peer;
  host_.recorder.begin(record, 0);
}

Status MessageCalls::run_collective(const Call& call) {
  assert(!is_rooted(call.record.collective) ||
         (call.record.root >= 0 && call.record.root < members_.size));
  const CallRecord& record = call.record;
  const std::size_t block = record.count * size_of(record.type);
  const auto* send = static_cast<const std::byte*>(call.send);
  auto* receive = static_cast<std::byte*>(call.receive);
  std::vector<Call> messages;
  const auto add = [&](Collective what, int peer, const std::byte* from, std::byte* to) {
    Call message;
    message.record = {record.count, what, record.type, RedOp::kSum, 0, -1};
    message.peer = peer;
    message.send = from;
    message.receive = to;
    messages.push_back(message);
  };
  for (int k = 0; k < members_.size; ++k) {
    const int to = (members_.rank + k) % members_.size,
              from = (members_.rank + members_.size - k) % members_.size;
    switch (record.collective) {
      case Collective::kAllToAll:
        add(Collective::kSend, to, send + to * block, nullptr);
        add(Collective::kRecv, from, nullptr, receive + from * block);
        break;
      case Collective::kGather:
        if (to == record.root) add(Collective::kSend, to, send, nullptr);
        if (members_.rank == record.root)
          add(Collective::kRecv, from, nullptr, receive + from * block);
        break;
      case Collective::kScatter:
        if (members_.rank == record.root) add(Collective::kSend, to, send + to * block, nullptr);
        if (from == record.root) add(Collective::kRecv, from, nullptr, receive);
        break;
      default:
        return fail(StatusCode::kInternalError, "{} does not run on several hosts",
                    name(record.collective));
    }
  }
  return run_announced(messages, record);
}

Status MessageCalls::run_announced(std::span<const Call> messages, const CallRecord& whole) {
  assert(whole.collective < Collective::kSend);
  if (members_.size == 1) return run(messages, &whole);
  call_.record = whole;
  host::Announcer announcer(host_, whole);
  announcer.reserve_line();
  announcer.publish_line(0);
  Status result = announcer.failed() ? faults_.why_it_ended() : run(messages, &whole);
  if (result.ok()) host_.finish_call();
  call_.record = CallRecord{};
  return result;
}

}  // namespace rondo
