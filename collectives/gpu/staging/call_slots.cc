// SPDX-License-Identifier: Apache-2.0
#include "collectives/gpu/staging/call_slots.h"

#include <algorithm>
#include <cassert>

#include "base/log.h"
#include "collectives/faults/fault_texts.h"

namespace rondo::gpu {

namespace {

constexpr std::size_t kMaxCaptured = 65536;  // different calls in graphs
constexpr double kWarnAheadSeconds = 60;
constexpr auto kLook = std::chrono::milliseconds(5);  // between checks of the limit and of the end

bool same_one_sided(const std::vector<Call>& some, const std::vector<Call>& others) {
  return std::equal(some.begin(), some.end(), others.begin(), others.end(),
                    [](const Call& a, const Call& b) {
                      return a.record == b.record && a.peer == b.peer && a.signal == b.signal &&
                             a.window == b.window && a.offset == b.offset && a.send == b.send;
                    });
}

}  // namespace

bool MessagePieces::same_as(const MessagePieces& other) const {
  return peer == other.peer && sends == other.sends &&
         std::equal(pieces.begin(), pieces.end(), other.pieces.begin(), other.pieces.end(),
                    [](const Piece& a, const Piece& b) { return a.same_as(b); });
}

bool HostedCall::same_as(const HostedCall& other) const {
  return record == other.record && scalar == other.scalar && late_scalar == other.late_scalar &&
         std::equal(messages.begin(), messages.end(), other.messages.begin(), other.messages.end(),
                    [](const auto& a, const auto& b) { return a.same_as(b); }) &&
         std::equal(rounds.begin(), rounds.end(), other.rounds.begin(), other.rounds.end(),
                    same_one_sided) &&
         same_one_sided(waits, other.waits);
}

// Puts and signals: one step per round, and one for the waits, if any.
std::uint64_t HostedCall::steps(const CallSteps& of_collective) const {
  if (!rounds.empty() || !waits.empty()) return rounds.size() + (waits.empty() ? 0 : 1);
  if (messages.empty()) return of_collective.size();
  std::uint64_t rounds = 1;
  for (const MessagePieces& one : messages)
    rounds = std::max<std::uint64_t>(rounds, one.pieces.size());
  return rounds;
}

MessagePieces& HostedCall::pieces_of(int peer, bool sends) {
  for (MessagePieces& one : messages)
    if (one.peer == peer && one.sends == sends) return one;
  return messages.emplace_back(MessagePieces{peer, sends, {}});
}

Result<std::uint32_t> CallSlots::place(HostedCall made, bool in_capture) {
  std::unique_lock lock(mutex_);
  if (in_capture) {
    for (std::size_t i = kAhead; i < calls_.size(); ++i)
      if (calls_[i].same_as(made)) return static_cast<std::uint32_t>(i);
    if (calls_.size() - kAhead >= kMaxCaptured)
      return fail(StatusCode::kInvalidUsage,
                  "rank {} has captured {} different calls into graphs, the most that ranks whose "
                  "calls pass through the host can",
                  rank_, calls_.size() - kAhead);
    calls_.push_back(std::move(made));
    return static_cast<std::uint32_t>(calls_.size() - 1);
  }
  RONDO_CHECK_OK(wait_for_room(lock));
  assert(plain_ - served_ < kAhead && "a call that waits would be overwritten");
  const std::size_t number = plain_++ % kAhead;
  calls_[number] = std::move(made);
  return static_cast<std::uint32_t>(number);
}

// The limit counts from the newest call that ended.
Status CallSlots::wait_for_room(std::unique_lock<std::mutex>& lock) {
  using Clock = std::chrono::steady_clock;
  std::uint64_t seen = 0;
  auto begin = Clock::now();
  bool warned = false;
  for (std::uint64_t served; (served = served_.load(std::memory_order_acquire)) + kAhead <= plain_;
       seen = served) {
    if (ended_) return fail(StatusCode::kInvalidUsage, "the communicator has ended");
    if (served != seen) begin = Clock::now();
    const double waited = std::chrono::duration<double>(Clock::now() - begin).count();
    if (limit_seconds_ > 0 && waited > limit_seconds_)
      return fail(StatusCode::kTimeout, "{}",
                  fault_texts::timed_out_ahead(rank_, limit_seconds_, kAhead));
    if (waited > kWarnAheadSeconds && !warned) {
      warned = true;
      RONDO_WARN(
          "rank {} is {} calls ahead of its stream, which has finished no call for {} s; the rank "
          "waits",
          rank_, kAhead, kWarnAheadSeconds);
    }
    served_one_.wait_for(lock, kLook);
  }
  return ok_status();
}

// A deque's elements do not move.
const HostedCall& CallSlots::operator[](std::uint32_t number) {
  std::lock_guard lock(mutex_);
  assert(number < calls_.size());
  return calls_[number];
}

void CallSlots::served(std::uint32_t number) {
  if (number >= kAhead) return;
  {
    std::lock_guard lock(mutex_);
    assert(served_ < plain_);
    served_.fetch_add(1, std::memory_order_release);
  }
  served_one_.notify_one();
}

bool CallSlots::end() { return !ended_.exchange(true); }

}  // namespace rondo::gpu
