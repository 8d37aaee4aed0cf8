// SPDX-License-Identifier: Apache-2.0
#include "collectives/watchdog/status_exchange.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "base/log.h"
#include "base/seconds.h"
#include "collectives/faults/fault.h"
#include "collectives/faults/peer_words.h"
#include "collectives/faults/standstill.h"

namespace rondo {
namespace {

// After a wait of this length, the rank asks the other hosts for their state.
constexpr double kFirstQuestion = 200'000'000;
constexpr std::int64_t kNextQuestion = 300'000'000;
constexpr int kMaxAsked = 128;

}  // namespace

void StatusExchange::begin_wait(double limit_ns) {
  next_question_ns_ = static_cast<std::int64_t>(std::min(kFirstQuestion, limit_ns / 4));
}

bool StatusExchange::check(int awaited, std::int64_t waited_ns) {
  if (remote_.links() == nullptr) return false;
  if (waited_ns >= next_question_ns_) {
    next_question_ns_ = waited_ns + kNextQuestion;
    ask(awaited);
  }
  if (!std::exchange(news_, false)) return false;
  return std::any_of(known_.begin(), known_.end(),
                     [&](const Known& peer) { return peer.received && differs(peer.report); });
}

const StatusExchange::Known* StatusExchange::of(int global) const {
  assert(global >= 0 && global < members_.size);
  if (known_.empty() || !known_[static_cast<std::size_t>(global)].received) return nullptr;
  return &known_[static_cast<std::size_t>(global)];
}

void StatusExchange::prepare() {
  if (!known_.empty()) return;
  known_.resize(static_cast<std::size_t>(members_.size));
  waits_now_.resize(static_cast<std::size_t>(host_.size));
}

void StatusExchange::ask(int awaited) {
  prepare();
  assert(members_.size > host_.size && "other hosts are asked");
  const int stride = (members_.size - host_.size + kMaxAsked - 1) / kMaxAsked;
  for (int place = 0; place < members_.size; ++place) {
    const int peer = members_.shape.ranks[place];
    if (members_.local_of(peer) >= 0) continue;
    const int number = place - members_.shape.first[members_.shape.host_of(peer)];
    if (peer != awaited && number % stride != host_.rank % stride) continue;
    if (known_[peer].asked) continue;
    known_[peer].asked = true;
    send(peer, true, 0);
  }
}

// The reports of the ranks are read one after the other while the ranks run. So the `checks` of
// each rank are read after all ranks' `waits`; otherwise one rank's check could precede another's
// wait (check_cycle).
void StatusExchange::send(int peer, bool is_question, std::uint64_t wanted) {
  assert(remote_.links() != nullptr);
  assert(waits_now_.size() == static_cast<std::size_t>(host_.size) && "after prepare()");
  for (int r = 0; r < host_.size; ++r)
    waits_now_[r] = HostAtomics::load_acquire(host_.peers[r].progress->waits);
  HostAtomics::fence_seq_cst();
  HostReport report;
  report.number = ++reported_;
  report.is_question = is_question;
  report.sequence = host_.sequence;
  report.traffic = remote_.links()->traffic(peer);
  for (int r = 0; r < host_.size; ++r) {
    report.ranks.push_back(report_of(host_.peers[r], members_.local_ranks[r], wanted));
    if (report.ranks.back().waits != waits_now_[r]) report.ranks.back().state = kOutside;
    if (r != host_.rank) report.ranks.back().condition = condition_of(members_, host_, r);
    report.is_last = r + 1 == host_.size;
    if (!report.is_last && report.ranks.size() < HostReport::kMaxRanks) continue;
    std::vector<std::byte> message = encode_host_report(report);
    message.insert(message.begin(), std::byte{kReportMessage});
    if (!remote_.links()->send_control(peer, message).ok()) {
      RONDO_INFO(kNet, "cannot report to rank {} what this host does", peer);
      return;
    }
    report.ranks.clear();
  }
}

void StatusExchange::on_message(int peer, std::span<const std::byte> message) {
  const std::optional<HostReport> report = decode_host_report(message, members_.size);
  if (!report) {
    RONDO_INFO(kNet, "rank {} sent a report that cannot be read", peer);
    return;
  }
  prepare();
  const std::int64_t now = now_ns();
  for (const RankReport& theirs : report->ranks) {
    if (members_.local_of(theirs.rank) >= 0) continue;
    Known& known = known_[theirs.rank];
    known.report = theirs;
    known.received = true;
    known.received_ns = now;
    known.reporter = peer;
    known.number = report->number;
  }
  news_ = true;
  if (report->is_question && report->is_last) return send(peer, false, report->sequence);
  if (report->is_question) return;
  if (report->is_last) known_[peer].asked = false;
  ProgressLine& progress = *host_.self().progress;
  Known& known = known_[peer];
  const RankReport& theirs = known.report;
  const bool for_them = HostAtomics::load_relaxed(progress.waiting_for) == peer;
  const bool for_me = theirs.waiting_for == members_.rank;
  if (theirs.state != kWaiting || theirs.waits == 0 || (!for_them && !for_me)) return;
  if (!is_quiet(remote_.links()->traffic(peer), report->traffic)) return;
  if (for_them) HostAtomics::store_release(progress.quiet, theirs.waits);
  if (!for_me || is_message(call_.record)) return;
  known.quiet_waits = theirs.waits;
  known.quiet_sequence = host_.sequence;
}

// Compares their call with this rank's own call of that number, if its ring still holds it.
bool StatusExchange::differs(const RankReport& theirs) {
  if (theirs.shown == 0 || theirs.shown > host_.sequence) return false;
  const AnnounceLine& line = host_.self().announcements[theirs.shown % kAnnounceDepth];
  if (HostAtomics::load_relaxed(line.sequence) != theirs.shown) return false;
  const CallRecord mine = load_record(line.record);
  if (mine == theirs.announced && line.history == theirs.history) return false;
  comparer_.raise_at(theirs.shown, theirs.rank, mine, theirs.announced);
  return true;
}

}  // namespace rondo
