#include "collectives/watchdog/internode_status.h"

#include <fmt/core.h>

#include <chrono>
#include <cstring>

#include "base/log.h"
#include "collectives/watchdog/fault_message.h"
#include "collectives/watchdog/fault_texts.h"

namespace rondo::gpu {
namespace {

constexpr std::int64_t kReportNs = 5'000'000;
constexpr std::int64_t kInVainNs = 300'000'000;   // in vain, until rank 0's end is to blame
constexpr std::int64_t kVerdictNs = 500'000'000;  // that a verdict may take
constexpr std::int64_t kWarnNs = 60'000'000'000;
constexpr std::size_t kCallsAtOnce = 200;
constexpr std::size_t kMostUntold = FailureDetector::kWindow / 2;
constexpr auto kLastWords = std::chrono::milliseconds(500);
constexpr auto kLook = std::chrono::milliseconds(5);  // for an end that nobody told of here

constexpr std::int64_t kTickNs = 500'000;

struct ReportHead {
  std::uint64_t kind = kStandingMessage;  // in its first byte
  std::uint64_t first = 0;                // number of the first of the calls behind this
  Standing standing;
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
    : terms_(std::move(terms)), left_(static_cast<std::size_t>(terms_.size)) {
  if (judges()) detector_ = std::make_unique<FailureDetector>(terms_.size, terms_.name_of);
}

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
  if (!judges()) {
    if (leaves && peer == 0) rank_0_ = head.standing;
    return;
  }
  detector_->hear_calls(peer, head.first, calls);
  detector_->hear(peer, head.standing, now_ns_);
  if (leaves) detector_->hear_leave(peer, now_ns_);
}

void InternodeStatus::report(const Standing& own, std::int64_t now_ns) {
  if (judges()) {
    std::uint64_t first = 0;
    const std::vector<CallRecord> calls = take_calls(kMostUntold, &first);
    detector_->hear_calls(0, first, calls);
    return detector_->hear(0, own, now_ns);
  }
  if (now_ns - told_at_ < kReportNs && told_at_ != 0) return;
  ReportHead head{kStandingMessage, 0, own};
  const std::vector<CallRecord> calls = take_calls(kCallsAtOnce, &head.first);
  if (calls.empty() && own == told_) return;
  told_ = own;
  told_at_ = now_ns;
  send(0, encode_report(head, calls));
}

bool InternodeStatus::progress() {
  const std::int64_t now_ns = std::chrono::steady_clock::now().time_since_epoch().count();
  if (now_ns - now_ns_ < kTickNs) return false;
  now_ns_ = now_ns;
  const bool moved = terms_.links.progress();
  if (has_ended()) return moved;
  const Standing own = terms_.standing();
  report(own, now_ns);
  if (judges()) {
    detect(now_ns);
  } else {
    look_at_rank_0(own, now_ns);
  }
  return moved;
}

void InternodeStatus::detect(std::int64_t now_ns) {
  for (int r = 1; r < terms_.size; ++r)
    if (!left_[static_cast<std::size_t>(r)] && !terms_.links.error_of(r).ok()) {
      detector_->hear_end(r, now_ns);
      gone_.store(r, std::memory_order_release);
    }
  const std::int64_t stalled = detector_->stalled_ns(now_ns);
  if (stalled < kWarnNs) warned_ = false;
  if (stalled >= kWarnNs && !warned_) {
    warned_ = true;
    RONDO_WARN("{}, and nothing has moved for {} s; it goes on waiting", detector_->who_waits(),
               stalled / 1'000'000'000);
  }
  if (auto found = detector_->verdict(now_ns)) raise(*found);
}

// What rank 0 cannot tell: that it is gone.
void InternodeStatus::look_at_rank_0(const Standing& own, std::int64_t now_ns) {
  const auto blame = [&](Status status, int culprit, std::string text) {
    Fault found;
    found.status = status;
    found.rank = terms_.rank;
    found.culprit = culprit;
    found.own = own.launch;
    found.text = std::move(text);
    raise(found);
  };
  if (!(own == seen_)) changed_at_ = now_ns;
  seen_ = own;
  const bool has_left = left_[0], is_gone = !has_left && !terms_.links.error_of(0).ok();
  if (gone_at_ == 0 && (has_left || is_gone)) {
    gone_at_ = now_ns;
    gone_.store(0, std::memory_order_release);
  }
  const std::int64_t quiet = now_ns - std::max(changed_at_, gone_at_);
  const bool finished = has_left && rank_0_ && rank_0_->begun >= own.begun && rank_0_->inside == 0;
  if (own.inside != 0 && gone_at_ != 0 && !finished && quiet >= kInVainNs)
    return blame(
        Status::kRemoteError, 0,
        fault_texts::gone_before(
            terms_.name_of(0), is_gone ? fault_texts::Parting::kEnded : fault_texts::Parting::kLeft,
            to_string(own.launch), terms_.rank));
  if (own.gave_up != 0 && now_ns - changed_at_ >= kVerdictNs)
    blame(Status::kTimeout, own.peer,
          fault_texts::timed_out_in_kernel({terms_.rank, own.peer, own.channel, own.step,
                                            own.wants_room != 0, own.limit_millis / 1000.0},
                                           own.launch, {}));
}

void InternodeStatus::finish() {
  const auto until = std::chrono::steady_clock::now() + kLastWords;
  terms_.links.progress();
  std::uint64_t first = 0;
  const std::vector<CallRecord> calls = take_calls(kCallsAtOnce, &first);
  const std::vector<std::byte> message =
      encode_report({kLeavesMessage, first, terms_.standing()}, calls);
  if (!judges()) send(0, message);
  for (int r = 1; judges() && r < terms_.size; ++r)
    if (!left_[static_cast<std::size_t>(r)] && terms_.links.error_of(r).ok()) send(r, message);
  (void)terms_.links.flush(until).ok();
}

}  // namespace rondo::gpu
