#include "collectives/watchdog/internode_status.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstring>

#include "base/log.h"
#include "collectives/watchdog/fault_message.h"
#include "collectives/watchdog/fault_texts.h"

namespace rondo::gpu {
namespace {

constexpr std::int64_t kReportNs = 5'000'000;
constexpr std::int64_t kQuietBetweenHostsNs = 300'000'000;  // news of a launch come late
constexpr std::int64_t kVerdictNs = 500'000'000;            // that a verdict of rank 0 may take
constexpr std::int64_t kOnTheWayNs = 3'000'000'000;         // that a network may stand still
constexpr std::size_t kCallsAtOnce = 200;
constexpr std::size_t kMostUntold = FailureDetector::kWindow / 2;
constexpr auto kLastWords = std::chrono::milliseconds(500);
constexpr auto kLook = std::chrono::milliseconds(5);  // for an end that nobody told of here

constexpr std::int64_t kTickNs = 500'000;

constexpr std::size_t kMostAwaited = 8;  // ranks that a report names: the others wait, too

struct ReportHead {
  std::uint64_t kind = kStandingMessage;  // in its first byte
  std::uint64_t first = 0;                // number of the first of the calls behind this
  Progress progress;
  double limit_seconds = 0;  // of a wait in messages
  std::int32_t awaited[kMostAwaited] = {-1, -1, -1, -1, -1, -1, -1, -1};

  void set_wait(const std::optional<Wait>& wait) {
    if (!wait) return;
    limit_seconds = wait->limit_seconds;
    std::copy_n(wait->awaited.begin(), std::min(kMostAwaited, wait->awaited.size()), awaited);
  }
  std::optional<Wait> wait(int ranks) const {
    Wait found{kMessageInWords, {}, limit_seconds};
    for (const std::int32_t rank : awaited)
      if (rank >= 0 && rank < ranks) found.awaited.push_back(rank);
    return found.awaited.empty() ? std::nullopt : std::optional<Wait>(std::move(found));
  }
};
static_assert(sizeof(ReportHead) + kCallsAtOnce * sizeof(CallRecord) <=
              RemoteLinks::kMostControlBytes);

std::vector<std::byte> encode_report(const ReportHead& head, std::span<const CallRecord> calls) {
  std::vector<std::byte> message(sizeof(head) + calls.size_bytes());
  std::memcpy(message.data(), &head, sizeof(head));
  if (!calls.empty()) std::memcpy(message.data() + sizeof(head), calls.data(), calls.size_bytes());
  return message;
}

}  // namespace

InternodeStatus::InternodeStatus(Terms terms)
    : terms_(std::move(terms)),
      detector_({terms_.rank, terms_.size, terms_.name_of, kQuietBetweenHostsNs,
                 judges() ? 0 : kVerdictNs, kOnTheWayNs}),
      notes_(terms_.rank),
      left_(static_cast<std::size_t>(terms_.size)) {}

Done InternodeStatus::begin() {
  return judges() ? done() : terms_.links.send_control(0, encode_report({}, {}));
}

Done InternodeStatus::announce(const CallRecord& record) {
  std::unique_lock lock(mutex_);
  const auto is_over = [this] { return has_ended() || calls_.size() < kMostUntold; };
  while (!told_some_.wait_for(lock, kLook, is_over)) {
  }
  if (has_ended()) return done();  // whoever asked hears why elsewhere
  calls_.push_back(record);
  ++called_;
  return done();
}

void InternodeStatus::end() { ended_.store(true, std::memory_order_release); }

std::vector<CallRecord> InternodeStatus::take_calls(std::size_t most, std::uint64_t* first) {
  std::lock_guard lock(mutex_);
  const auto end = calls_.begin() + static_cast<std::ptrdiff_t>(std::min(most, calls_.size()));
  *first = called_ - calls_.size() + 1;
  std::vector<CallRecord> taken(calls_.begin(), end);
  calls_.erase(calls_.begin(), end);
  told_some_.notify_all();
  return taken;
}

void InternodeStatus::send(int peer, const std::vector<std::byte>& message) {
  if (const Done sent = terms_.links.send_control(peer, message); !sent.ok())
    RONDO_INFO(kNet, "rank {} cannot tell rank {}: {}", terms_.rank, peer, sent.error().text);
}

void InternodeStatus::raise(const Fault& fault) {
  if (!ended_.exchange(true)) terms_.raise(fault);
}

void InternodeStatus::hear(int peer, std::span<const std::byte> message) {
  if (!message.empty() && message[0] == std::byte{kMessagesNote}) return notes_.hear(peer, message);
  ReportHead head;
  if (message.size() < sizeof(head)) return;
  std::memcpy(&head, message.data(), sizeof(head));
  std::vector<CallRecord> calls((message.size() - sizeof(head)) / sizeof(CallRecord));
  if (!calls.empty())
    std::memcpy(calls.data(), message.data() + sizeof(head), calls.size() * sizeof(CallRecord));
  const bool leaves = head.kind == kLeavesMessage;
  if (leaves) {
    left_[static_cast<std::size_t>(peer)] = true;
    gone_.store(peer, std::memory_order_release);
  }
  if (judges()) detector_.hear_calls(peer, head.first, calls);
  detector_.hear(peer, head.progress);
  detector_.hear_wait(peer, head.wait(terms_.size));
  if (leaves) detector_.hear_leave(peer);
}

// Nobody but rank 0 hears for whom the others wait: where it is gone, whoever waits waits for it.
std::optional<Wait> InternodeStatus::own_wait() const {
  std::optional<Wait> wait = terms_.wait();
  if (wait && !judges() && !left_[0] && !terms_.links.error_of(0).ok()) wait->awaited.push_back(0);
  return wait;
}

void InternodeStatus::report(const Progress& own, std::int64_t now_ns) {
  const std::optional<Wait> wait = own_wait();
  detector_.hear(terms_.rank, own);
  detector_.hear_wait(terms_.rank, wait);
  if (judges()) {
    std::uint64_t first = 0;
    const std::vector<CallRecord> calls = take_calls(kMostUntold, &first);
    return detector_.hear_calls(0, first, calls);
  }
  if (now_ns - told_at_ < kReportNs && told_at_ != 0) return;
  ReportHead head{kStandingMessage, 0, own};
  head.set_wait(wait);
  const std::vector<int> awaited = wait ? wait->awaited : std::vector<int>{};
  const std::vector<CallRecord> calls = take_calls(kCallsAtOnce, &head.first);
  if (calls.empty() && own == told_ && awaited == told_awaited_) return;
  told_ = own;
  told_awaited_ = awaited;
  told_at_ = now_ns;
  send(0, encode_report(head, calls));
}

bool InternodeStatus::progress() {
  const std::int64_t now_ns = std::chrono::steady_clock::now().time_since_epoch().count();
  if (now_ns - now_ns_ < kTickNs) return false;
  now_ns_ = now_ns;
  detector_.tick(now_ns);
  const bool moved = terms_.links.progress();
  if (has_ended()) return moved;
  report(terms_.progress(), now_ns);
  tell_of_messages();
  look_for_ends();
  if (const auto warning = detector_.warning(); warning && judges()) RONDO_WARN("{}", *warning);
  if (auto found = detector_.verdict()) raise(*found);
  return moved;
}

void InternodeStatus::tell_of_messages() {
  if (now_ns_ - notes_at_ < kReportNs) return;
  notes_at_ = now_ns_;
  while (const auto next = notes_.take(RemoteLinks::kMostControlBytes))
    send(next->peer, next->message);
  if (const auto mismatch = notes_.take_mismatch()) raise(*mismatch);
}

// The others' links may end here for reasons that rank 0 knows better; but its own end it cannot
// tell.
void InternodeStatus::look_for_ends() {
  for (int r = 0; r < (judges() ? terms_.size : 1); ++r)
    if (r != terms_.rank && !left_[static_cast<std::size_t>(r)] && !terms_.links.error_of(r).ok()) {
      detector_.hear_end(r);
      gone_.store(r, std::memory_order_release);
    }
  int peer = -1;
  if (const Error* const ended = terms_.lost(&peer)) detector_.hear_lost(peer, ended->text);
}

void InternodeStatus::finish() {
  const auto until = std::chrono::steady_clock::now() + kLastWords;
  terms_.links.progress();
  std::uint64_t first = 0;
  const std::vector<CallRecord> calls = take_calls(kCallsAtOnce, &first);
  const std::vector<std::byte> message =
      encode_report({.kind = kLeavesMessage, .first = first, .progress = terms_.progress()}, calls);
  if (!judges()) send(0, message);
  for (int r = 1; judges() && r < terms_.size; ++r)
    if (!left_[static_cast<std::size_t>(r)] && terms_.links.error_of(r).ok()) send(r, message);
  (void)terms_.links.flush(until).ok();
}

}  // namespace rondo::gpu
