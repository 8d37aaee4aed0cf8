// SPDX-License-Identifier: Apache-2.0
#include "collectives/faults/internode_status.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstring>

#include "base/log.h"
#include "collectives/faults/fault.h"
#include "collectives/faults/fault_texts.h"

namespace rondo::gpu {
namespace {

constexpr std::int64_t kNotesNs = 5'000'000;
constexpr std::int64_t kShowNs = 20'000'000;
constexpr std::int64_t kQuietBetweenHostsNs = 300'000'000;  // delay of news of a launch
// Longest time for rank 0's verdict if a rank between it and this one is bypassed.
constexpr std::int64_t kVerdictNs = 2 * StatusTree::kSilentNs;
constexpr std::int64_t kOnTheWayNs = 3'000'000'000;  // longest pause of a network
constexpr std::size_t kMaxUnreported = FailureDetector::kWindow / 2;
constexpr auto kLastWords = std::chrono::seconds(2);  // a loaded machine needs a while
constexpr auto kFaultFlush = std::chrono::milliseconds(200);
constexpr auto kLook = std::chrono::milliseconds(5);  // polls for an end without a notification

constexpr std::int64_t kTickNs = 500'000;

std::int64_t now_in_ns() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

}  // namespace

InternodeStatus::InternodeStatus(Options options)
    : options_(std::move(options)),
      detector_({options_.rank, options_.size, options_.name_of, kQuietBetweenHostsNs,
                 detects() ? 0 : kVerdictNs, kOnTheWayNs}),
      tree_({options_.rank, options_.size, StatusTree::ancestors_of(options_.shape, options_.rank),
             StatusTree::children_of(options_.shape, options_.rank),
             [this](int peer, std::span<const std::byte> message) { send(peer, message); },
             [this](int peer) { return !options_.links.error_of(peer).ok(); },
             [this](const StatusItem& news) { take_news(news); }}),
      notes_(options_.rank) {}

Status InternodeStatus::begin() {
  if (detects()) return ok_status();
  tree_.put({}, {}, 1, {});
  tree_.tick(now_in_ns(), false);
  return options_.links.error_of(tree_.parent());
}

Status InternodeStatus::announce(const CallRecord& record) {
  std::unique_lock lock(mutex_);
  const auto is_over = [this] { return has_ended() || calls_.size() < kMaxUnreported; };
  while (!reported_some_.wait_for(lock, kLook, is_over)) {
  }
  if (has_ended()) return ok_status();  // the reason is reported elsewhere
  calls_.push_back(record);
  ++called_;
  return ok_status();
}

void InternodeStatus::end() { ended_.store(true, std::memory_order_release); }

std::vector<CallRecord> InternodeStatus::take_calls(std::size_t maximum, std::uint64_t* first) {
  std::lock_guard lock(mutex_);
  const auto end = calls_.begin() + static_cast<std::ptrdiff_t>(std::min(maximum, calls_.size()));
  *first = called_ - calls_.size() + 1;
  std::vector<CallRecord> taken(calls_.begin(), end);
  calls_.erase(calls_.begin(), end);
  reported_some_.notify_all();
  return taken;
}

void InternodeStatus::send(int peer, std::span<const std::byte> message) {
  if (const Status sent = options_.links.send_control(peer, message); !sent.ok())
    RONDO_INFO(kNet, "rank {} cannot report to rank {}: {}", options_.rank, peer,
               sent.error().text);
}

void InternodeStatus::report_fault(const Fault& fault) {
  std::vector<std::byte> message = encode_fault(fault);
  message.insert(message.begin(), std::byte{kFaultMessage});
  tree_.report_fault(std::move(message));
  // Faults found by other ranks are forwarded while the links move.
  if (fault.rank == options_.rank)
    (void)options_.links.flush(std::chrono::steady_clock::now() + kFaultFlush).ok();
}

void InternodeStatus::raise(const Fault& fault) {
  if (!ended_.exchange(true)) options_.raise(fault);
}

void InternodeStatus::report(int peer, std::span<const std::byte> message) {
  if (!message.empty() && message[0] == std::byte{kMessagesNote})
    return notes_.receive(peer, message);
  tree_.receive(peer, message);
}

// At rank 0: news of any rank. Elsewhere: only of the rank whose end ended rank 0.
void InternodeStatus::take_news(const StatusItem& news) {
  if (news.presence != StatusItem::kThere) gone_.store(news.rank, std::memory_order_release);
  for (const StatusItem::Call& call : news.calls)
    detector_.report_calls(news.rank, call.number, {&call.record, 1});
  if (news.progress) {
    detector_.report(news.rank, *news.progress);
    detector_.report_wait(news.rank, news.wait);
  }
  if (news.presence == StatusItem::kLeft) detector_.report_leave(news.rank);
  if (news.presence == StatusItem::kEnded) detector_.report_end(news.rank);
  if (!detects() && news.presence == StatusItem::kEnded) detector_gone_for_ = news.rank;
}

// Only rank 0 knows which ranks the others wait for: if rank 0 is gone, every waiting rank counts
// as waiting for it.
std::optional<Wait> InternodeStatus::own_wait() const {
  std::optional<Wait> wait = options_.wait();
  if (wait && detector_gone_for_ >= 0) wait->awaited.push_back(detector_gone_for_);
  return wait;
}

void InternodeStatus::report(const Progress& own) {
  std::optional<Wait> wait = own_wait();
  detector_.report(options_.rank, own);
  detector_.report_wait(options_.rank, wait);
  std::uint64_t first = 0;
  const std::vector<CallRecord> calls = take_calls(kMaxUnreported, &first);
  if (detects()) detector_.report_calls(0, first, calls);
  tree_.put(own, std::move(wait), first, calls);
}

bool InternodeStatus::is_joined() const {
  const int parent = tree_.parent();
  return parent < 0 || options_.links.reached(parent) || !options_.links.error_of(parent).ok();
}

bool InternodeStatus::progress() {
  const std::int64_t now_ns = now_in_ns();
  if (now_ns - now_ns_ < kTickNs) return false;
  now_ns_ = now_ns;
  detector_.tick(now_ns);
  const bool moved = options_.links.progress();
  if (!has_joined() && is_joined()) joined_.store(true, std::memory_order_release);
  const Progress own = options_.progress();
  if (!has_ended()) report(own);
  tree_.tick(now_ns, own.is_inside() || options_.wait().has_value());
  if (has_ended()) return moved;
  show_wait(own);
  report_messages();
  int peer = -1;
  // Connections of other ranks may end here for reasons that rank 0 knows better.
  if (const Error* const ended = options_.lost(&peer)) detector_.report_lost(peer, ended->text);
  if (const auto warning = detector_.warning(); warning && detects()) RONDO_WARN("{}", *warning);
  if (auto found = detector_.verdict()) raise(*found);
  return moved;
}

void InternodeStatus::report_messages() {
  if (now_ns_ - notes_at_ < kNotesNs) return;
  notes_at_ = now_ns_;
  while (const auto next = notes_.take(RemoteLinks::kMaxControlBytes))
    send(next->peer, next->message);
  if (const auto mismatch = notes_.take_mismatch()) raise(*mismatch);
}

// A rank whose calls the host does shows its waits itself.
void InternodeStatus::show_wait(const Progress& own) {
  if (own.begun == 0 || now_ns_ - shown_at_ < kShowNs) return;
  shown_at_ = now_ns_;
  options_.show(own.begun, detector_.wait_of(options_.rank));
}

void InternodeStatus::finish() {
  const auto until = std::chrono::steady_clock::now() + kLastWords;
  options_.links.progress();
  std::uint64_t first = 0;
  const std::vector<CallRecord> calls = take_calls(kMaxUnreported, &first);
  tree_.put(options_.progress(), {}, first, calls);
  tree_.leave();
  (void)options_.links.flush(until).ok();
}

}  // namespace rondo::gpu
