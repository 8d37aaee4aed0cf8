// What a communicator does where some of its ranks are on other hosts: open links, drive them while
// it waits, pass faults on, and compose collectives that have no text over connections.
#include <sched.h>

#include <algorithm>
#include <cstring>

#include "base/log.h"
#include "collectives/communicator/communicator_state.h"
#include "collectives/host/fiber_group.h"
#include "collectives/watchdog/fault_message.h"
#include "collectives/watchdog/fault_texts.h"
#include "kernels/host/announcer.h"
#include "transport/net/remote_links.h"

namespace rondo {
namespace {

constexpr int kBusyTurns = 200;  // without traffic, before the thread sleeps on its sockets
constexpr std::chrono::milliseconds kShortSleep{1};
constexpr std::chrono::milliseconds kFaultFlush{200};
constexpr std::int64_t kLastWords = 300'000'000;  // ns

}  // namespace

void CommunicatorState::suspend_rank(bool fresh) {
  if (fresh) idle_turns = 0;
  const bool moved = links != nullptr && links->progress();
  if (FiberGroup* group_of_fibers = FiberGroup::current())
    return group_of_fibers->suspend(fresh || moved);
  if (moved) {
    idle_turns = 0;
  } else if (++idle_turns < kBusyTurns) {
    sched_yield();
  } else {
    links->sleep(-1, kShortSleep);
  }
}

bool CommunicatorState::check_remote(const WaitSite& site) {
  if (links == nullptr || site.global_rank < 0 || local_of(site.global_rank) >= 0) return false;
  const Done error = links->error_of(site.global_rank);
  if (error.ok()) return false;
  // A rank that left because of a fault says so on a connection of its own, which may come later
  // than the end of those with data.
  if (remote_error_since < 0) remote_error_since = waited_ns;
  if (waited_ns - remote_error_since < kLastWords) return false;
  raise(make_fault(
      Status::kRemoteError, site.global_rank,
      fault_texts::lost(rank_name(site.global_rank), current_call(), rank, error.error().text)));
  return true;
}

void CommunicatorState::tell_other_hosts(const Fault& raised) {
  if (links == nullptr || raised.rank != rank) return;  // its finder tells everybody
  std::vector<std::byte> message = encode_fault(raised);
  message.insert(message.begin(), std::byte{kFaultMessage});
  for (int r = 0; r < size; ++r)
    if (local_of(r) < 0 && !links->send_control(r, message).ok())
      RONDO_INFO(kNet, "cannot tell rank {} of a fault", r);
  (void)links->flush(std::chrono::steady_clock::now() + kFaultFlush).ok();
}

void CommunicatorState::on_control(int peer, std::span<const std::byte> message) {
  if (!message.empty() && message[0] == std::byte{kReportMessage})
    return on_host_report(peer, message.subspan(1));
  raise(decode_fault(message.subspan(message.empty() ? 0 : 1), size));
}

// The end of a call on several hosts: what was sent has left this process. To one peer after the
// other, so that each wait names the rank that it is for.
Done CommunicatorState::flush_links() {
  if (links == nullptr) return done();
  for (int peer; (peer = links->unflushed_data_peer()) >= 0;) {
    const auto is_flushed = [&] {
      links->progress();
      return links->data_flushed(peer);
    };
    if (!host.waiter.until(is_flushed, {-1, 0, peer})) return why_it_ended();
  }
  return done();
}

// Collectives without a text over connections, as messages between the ranks.
Done CommunicatorState::run_as_messages(const Call& call) {
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
  for (int k = 0; k < size; ++k) {
    const int to = (rank + k) % size, from = (rank + size - k) % size;
    switch (record.collective) {
      case Collective::kAllToAll:
        add(Collective::kSend, to, send + to * block, nullptr);
        add(Collective::kRecv, from, nullptr, receive + from * block);
        break;
      case Collective::kGather:
        if (to == record.root) add(Collective::kSend, to, send, nullptr);
        if (rank == record.root) add(Collective::kRecv, from, nullptr, receive + from * block);
        break;
      case Collective::kScatter:
        if (rank == record.root) add(Collective::kSend, to, send + to * block, nullptr);
        if (from == record.root) add(Collective::kRecv, from, nullptr, receive);
        break;
      default:
        return fail(Status::kInternalError, "{} does not run on several hosts",
                    name(record.collective));
    }
  }
  return run_announced_messages(messages, record);
}

// Messages that make up a collective: announced as such, so that ranks that call something else are
// found, and named by it in every fault.
Done CommunicatorState::run_announced_messages(std::span<const Call> messages,
                                               const CallRecord& whole) {
  if (size == 1) return run_point_to_point(messages, &whole);
  current = whole;
  host::Announcer announcer(host, whole);
  announcer.reserve_line();
  announcer.publish_line(0);
  Done result = announcer.failed() ? why_it_ended() : run_point_to_point(messages, &whole);
  if (result.ok()) host.finish_call();
  current = CallRecord{};
  return result;
}

// A v-collective: messages, or reductions one after another, which are calls of their own behind
// the announcement of the whole.
Done CommunicatorState::run_parts(const Call& whole) {
  if (whole.record.collective != Collective::kReduceScatterV)
    return run_announced_messages(*whole.parts, whole.record);
  if (size > 1) RONDO_CHECK_OK(announce_empty(whole.record));
  for (const Call& part : *whole.parts) {
    Call reduction = part;
    reduction.scalar = whole.scalar;  // PreMulSum's may have come late
    RONDO_CHECK_OK(run_collective(reduction));
  }
  return done();
}

}  // namespace rondo
