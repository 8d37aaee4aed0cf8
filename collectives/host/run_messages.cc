// Grouped sends and receives of a communicator: pairs up those to itself, runs the rest.
#include <algorithm>
#include <cstring>

#include "collectives/communicator/communicator_state.h"
#include "kernels/host/point_to_point.h"

namespace rondo {
namespace {

std::size_t bytes_of(const Call& call) { return call.record.count * size_of(call.record.type); }

// Messages of a rank to itself: the k-th send meets the k-th receive.
Done run_self(std::span<const Call> calls, int rank) {
  const auto to_self = [&](const Call& call) {
    return is_point_to_point(call) && call.peer == rank;
  };
  if (std::none_of(calls.begin(), calls.end(), to_self)) return done();
  std::vector<const Call*> sends, receives;
  for (const Call& call : calls) {
    if (!is_point_to_point(call) || call.peer != rank) continue;
    (call.record.collective == Collective::kSend ? sends : receives).push_back(&call);
  }
  if (sends.size() > receives.size())
    return fail(Status::kInvalidUsage, "Trying to send to self without a matching recv");
  if (receives.size() > sends.size())
    return fail(Status::kInvalidUsage, "Trying to recv to self without a matching send");
  for (std::size_t i = 0; i < sends.size(); ++i) {
    if (bytes_of(*sends[i]) != bytes_of(*receives[i]))
      return fail(Status::kInvalidUsage, "rank {} sends itself {} and receives {}", rank,
                  to_string(sends[i]->record), to_string(receives[i]->record));
    if (sends[i]->send != receives[i]->receive && bytes_of(*sends[i]) > 0)
      std::memmove(receives[i]->receive, sends[i]->send, bytes_of(*sends[i]));
  }
  return done();
}

}  // namespace

Done CommunicatorState::run_point_to_point(std::span<const Call> calls, const CallRecord* whole) {
  RONDO_CHECK_OK(run_self(calls, rank));
  messages.clear();
  for (const Call& call : calls) {
    if (!is_point_to_point(call) || call.peer == rank) continue;
    host::Message message;
    message.is_send = call.record.collective == Collective::kSend;
    message.record = whole != nullptr ? *whole : call.record;
    message.record.count = call.record.count;
    message.tag = whole != nullptr ? host.call_tag() : 0;
    message.bytes = bytes_of(call);
    message.buffer = message.is_send ? static_cast<std::byte*>(const_cast<void*>(call.send))
                                     : static_cast<std::byte*>(call.receive);
    RONDO_TRY(message.connection, message.is_send
                                      ? connections->to(call.peer, kPointToPointLane)
                                      : connections->from(call.peer, kPointToPointLane));
    messages.push_back(message);
  }
  if (whole != nullptr) {
    current = *whole;
  } else {
    current = messages.empty() ? CallRecord{} : messages.front().record;
  }
  const bool ok = host::run_messages(host, messages);
  current = CallRecord{};
  return ok ? flush_links() : why_it_ended();
}

}  // namespace rondo
