// SPDX-License-Identifier: Apache-2.0
#include "collectives/gpu/memory/recall.h"

#include <algorithm>
#include <cassert>
#include <vector>

#include "base/atomics.h"
#include "base/log.h"
#include "base/poll_until.h"
#include "base/printable.h"
#include "base/process.h"

namespace rondo::gpu {
namespace {

// The segment's word: number of the newest proposal, and what became of it. kOpen: withdrawn, or
// none so far. kLate: withdrawn, because a process did not answer in time.
enum Phase : std::uint64_t { kOpen, kProposed, kDecided, kLate };
constexpr std::uint64_t kPhases = 4;
constexpr std::uint64_t word_of(std::uint64_t attempt, Phase phase) {
  return attempt * kPhases + phase;
}

bool change(std::uint64_t& word, std::uint64_t from, std::uint64_t to) {
  return std::atomic_ref<std::uint64_t>(word).compare_exchange_strong(from, to);
}

// Communicators of this process that may lend memory.
class Lenders {
 public:
  void add(int device, const std::shared_ptr<Recall>& one) {
    std::lock_guard lock(mutex_);
    std::erase_if(all_, [](const Lender& other) { return other.recall.expired(); });
    all_.push_back({device, one});
  }
  std::vector<std::shared_ptr<Recall>> of(int device) {
    std::lock_guard lock(mutex_);
    std::vector<std::shared_ptr<Recall>> found;
    for (const Lender& one : all_)
      if (one.device == device)
        if (auto recall = one.recall.lock()) found.push_back(std::move(recall));
    return found;
  }

 private:
  struct Lender {
    int device;
    std::weak_ptr<Recall> recall;
  };
  std::mutex mutex_;
  std::vector<Lender> all_;
};

Lenders& lenders() {
  static auto& all = *new Lenders;  // never destroyed: like memory_registry()
  return all;
}

// The newest message from one rank to another that a side has announced.
std::uint64_t newest_message(const ControlSegment& segment, int from, int to, int side) {
  std::uint64_t newest = 0;
  for (std::uint64_t i = 1; i <= kMessageDepth; ++i)
    newest = std::max(newest, HostAtomics::load_acquire(segment.note(from, to, side, i).number));
  return newest;
}

}  // namespace

Recall::Recall(std::shared_ptr<ControlSegment> segment, int process, int device,
               DeviceMemory& memory)
    : made_in_(fork_generation()),
      segment_(std::move(segment)),
      process_(process),
      device_(device),
      memory_(memory) {}

Recall::~Recall() { assert(!idle_); }

void Recall::begin(Idle idle) {
  {
    std::lock_guard lock(idle_mutex_);
    idle_ = std::move(idle);
  }
  memory_.ask_for_room([this](bool urgent) { return make_room(urgent); });
  lenders().add(device_, shared_from_this());
}

void Recall::end() {
  {
    std::lock_guard lock(idle_mutex_);
    idle_ = nullptr;
  }
  settle(true);
}

// True if memory was freed. All idle communicators are asked at once, so the caller waits kPatience
// in all, however many they are.
bool Recall::make_room(bool urgent) {
  has_grown_ = true;
  struct Asked {
    std::shared_ptr<Recall> lender;
    Proposal proposal;
    std::uint64_t bytes_before;
    Answer answer = Answer::kNone;
  };
  const auto begin = std::chrono::steady_clock::now();
  std::vector<Asked> asked;
  for (const auto& other : lenders().of(device_)) {
    const bool lends = urgent || (other->has_grown_ && !other->keeps_);
    if (other.get() == this || !lends) continue;
    const std::uint64_t bytes = other->bytes_held();
    if (const auto proposal = other->propose()) asked.push_back({other, *proposal, bytes});
  }
  if (asked.empty()) return false;
  const auto all_answered = [&] {
    bool all = true;
    for (Asked& one : asked) {
      if (one.answer == Answer::kNone) one.answer = one.lender->answer_to(one.proposal);
      all = all && one.answer != Answer::kNone;
    }
    return all;
  };
  poll_until(all_answered, begin + kPatience);
  std::size_t gave = 0;
  std::uint64_t bytes = 0;
  for (Asked& one : asked) {
    if (one.answer == Answer::kNone) one.lender->give_up(one.proposal);
    if (one.answer != Answer::kGave) continue;
    ++gave;
    bytes += one.bytes_before - std::min(one.bytes_before, one.lender->bytes_held());
  }
  const auto waited = std::chrono::steady_clock::now() - begin;
  RONDO_INFO(kInit, "GPU {}: {} asked for memory at once: {} gave {} bytes in {} ms", device_,
             counted(asked.size(), "idle communicator"), gave, bytes,
             std::chrono::duration_cast<std::chrono::milliseconds>(waited).count());
  return gave > 0;
}

std::uint64_t Recall::bytes_held() {
  std::lock_guard lock(idle_mutex_);
  return idle_ ? memory_.own_bytes() : 0;
}

// Nullopt: this communicator does not lend now. Does not wait.
std::optional<Recall::Proposal> Recall::propose() {
  const auto is_idle = [this](const std::function<bool()>& then) {
    std::lock_guard lock(idle_mutex_);
    return idle_ && idle_(then);
  };
  std::uint64_t& word = segment_->recall();
  const std::uint64_t seen = HostAtomics::load_seq_cst(word);
  // In this order: the newest decision must not be replaced before this process has seen it.
  if (made_in_ != fork_generation() || !is_whole_) return std::nullopt;
  const std::uint64_t before = HostAtomics::load_acquire(segment_->process(process_).suspended);
  std::uint64_t attempt = seen / kPhases;
  // Another process may have proposed it.
  if (seen % kPhases == kProposed) return Proposal{attempt, before, false, false};
  if (!is_idle([this] { return all_have_made_the_same_calls(); })) return std::nullopt;
  const bool own = change(word, seen, word_of(++attempt, kProposed));
  if (own) answer(attempt);
  return Proposal{attempt, before, own, false};
}

Recall::Answer Recall::answer_to(Proposal& proposal) {
  std::uint64_t& word = segment_->recall();
  const std::uint64_t proposed = word_of(proposal.attempt, kProposed);
  const std::uint64_t now = HostAtomics::load_acquire(word);
  if (proposal.own && !proposal.decided) {
    if (now != proposed) return Answer::kKept;  // withdrawn
    for (int p = 0; p < segment_->processes(); ++p)
      if (HostAtomics::load_acquire(segment_->process(p).lends) != proposal.attempt)
        return Answer::kNone;
    // Those who have agreed make no call without withdrawing the proposal.
    proposal.decided = all_have_made_the_same_calls() &&
                       change(word, proposed, word_of(proposal.attempt, kDecided));
    if (!proposal.decided) {
      (void)change(word, proposed, word_of(proposal.attempt, kOpen));
      return Answer::kKept;
    }
  }
  if (all_have_dropped(proposal.before)) return Answer::kGave;
  if (now == word_of(proposal.attempt, kLate)) keeps_ = true;
  const bool withdrawn = now / kPhases != proposal.attempt ||
                         (now % kPhases != kProposed && now % kPhases != kDecided);
  return !proposal.own && withdrawn ? Answer::kKept : Answer::kNone;
}

// A process has not agreed in time: it is not asked again.
void Recall::give_up(const Proposal& proposal) {
  if (!proposal.own || proposal.decided) return;
  keeps_ = true;
  (void)change(segment_->recall(), word_of(proposal.attempt, kProposed),
               word_of(proposal.attempt, kLate));
}

// Data of a message or of a rooted call may be under way although the sender's calls are over.
bool Recall::all_have_made_the_same_calls() const {
  const auto& own = segment_->process(process_);
  for (int p = 0; p < segment_->processes(); ++p) {
    const auto& other = segment_->process(p);
    if (HostAtomics::load_acquire(other.left) != 0 ||
        HostAtomics::load_acquire(other.announced) != HostAtomics::load_acquire(own.announced) ||
        HostAtomics::load_acquire(other.suspended) != HostAtomics::load_acquire(own.suspended))
      return false;
  }
  for (int from = 0; from < segment_->ranks(); ++from)
    for (int to = 0; to < segment_->ranks(); ++to)
      if (newest_message(*segment_, from, to, 0) != newest_message(*segment_, from, to, 1))
        return false;
  return true;
}

bool Recall::all_have_dropped(std::uint64_t before) const {
  for (int p = 0; p < segment_->processes(); ++p)
    if (HostAtomics::load_acquire(segment_->process(p).suspended) <= before) return false;
  return true;
}

void Recall::look() {
  const std::uint64_t seen = HostAtomics::load_seq_cst(segment_->recall());
  const std::uint64_t attempt = seen / kPhases;
  if (seen % kPhases == kProposed)
    answer(attempt);
  else
    settle();
}

void Recall::answer(std::uint64_t attempt) {
  std::lock_guard lock(idle_mutex_);
  if (answered_ == attempt) return;
  answered_ = attempt;
  if (!idle_ || !idle_([&] { return agree(attempt); }))
    (void)change(segment_->recall(), word_of(attempt, kProposed), word_of(attempt, kOpen));
}

// While no call of this process can begin.
bool Recall::agree(std::uint64_t attempt) {
  std::lock_guard lock(mutex_);
  if (!is_whole_) return false;
  agreed_ = attempt;
  is_whole_ = false;
  HostAtomics::store_seq_cst(segment_->process(process_).lends, attempt);
  return true;
}

void Recall::settle(bool withdraws) {
  std::lock_guard lock(mutex_);
  if (agreed_ == 0) return;
  std::uint64_t& word = segment_->recall();
  if (withdraws) (void)change(word, word_of(agreed_, kProposed), word_of(agreed_, kOpen));
  const std::uint64_t now = HostAtomics::load_seq_cst(word);
  if (now == word_of(agreed_, kProposed)) return;
  const bool decided = now == word_of(agreed_, kDecided);
  agreed_ = 0;
  if (!decided) {
    is_whole_ = true;
    return;
  }
  keeps_ = true;
  if (const Status dropped = memory_.lend(); !dropped.ok())
    RONDO_WARN("memory of an idle communicator stays on GPU {}: {}", device_, dropped.error().text);
}

Status Recall::take_again(const net::Deadline& deadline) {
  settle(true);
  RONDO_CHECK_OK(memory_.take_again(deadline));
  is_whole_ = true;
  return ok_status();
}

}  // namespace rondo::gpu
