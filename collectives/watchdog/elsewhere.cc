// What ranks of other hosts are doing. Within a host everybody reads everybody's announcements;
// between hosts whoever has waited for long asks, and whoever waits answers, for its whole host. So
// different calls are found, circles of waits, and at the deadline every rank's call is known.
//
// Each rank asks those of other hosts that have a number like its own there, and the one that it
// waits for: at most kMostAsked in all, each again only once it has answered. Cost: nothing in
// waits that are shorter than 200 ms; then a message and an answer of about 100 bytes a
// rank every kNextQuestion.
#include <algorithm>

#include "base/log.h"
#include "base/seconds.h"
#include "collectives/communicator/communicator_state.h"
#include "collectives/watchdog/fault_message.h"
#include "collectives/watchdog/peer_words.h"

namespace rondo {
namespace {

constexpr std::int64_t kNextQuestion = 300'000'000;
constexpr int kMostAsked = 128;

}  // namespace

// Asks when it is time; true (and raised) if an answer shows that a rank made another call.
bool CommunicatorState::check_elsewhere(int awaited) {
  if (links == nullptr) return false;
  if (waited_ns >= next_question_ns) {
    next_question_ns = waited_ns + kNextQuestion;
    ask_elsewhere(awaited);
  }
  if (!elsewhere || !elsewhere->news) return false;
  elsewhere->news = false;
  return std::any_of(
      elsewhere->known.begin(), elsewhere->known.end(),
      [&](const Elsewhere::Rank& peer) { return peer.heard && differs_elsewhere(peer.report); });
}

void CommunicatorState::know_elsewhere() {
  if (elsewhere) return;
  elsewhere = std::make_unique<Elsewhere>();
  elsewhere->known.resize(size);
  elsewhere->waits_now.resize(host.size);
}

void CommunicatorState::ask_elsewhere(int awaited) {
  know_elsewhere();
  const int stride = (size - host.size + kMostAsked - 1) / kMostAsked;
  for (int place = 0; place < size; ++place) {
    const int peer = shape.ranks[place];
    if (local_of(peer) >= 0) continue;
    const int number = place - shape.first[shape.host_of(peer)];
    if (peer != awaited && number % stride != host.rank % stride) continue;
    if (elsewhere->known[peer].asked) continue;
    elsewhere->known[peer].asked = true;
    tell_host_report(peer, true, 0);
  }
}

// Ranks read this one after the other while they go on: what a rank had checked is read after all
// the others' waits, or else one's check might come before another's wait (check_circle).
void CommunicatorState::tell_host_report(int peer, bool is_question, std::uint64_t wanted) {
  for (int r = 0; r < host.size; ++r)
    elsewhere->waits_now[r] = HostAtomics::load_acquire(host.peers[r].progress->waits);
  HostAtomics::fence_seq_cst();
  HostReport report;
  report.number = ++elsewhere->told;
  report.is_question = is_question;
  report.sequence = host.sequence;
  report.traffic = links->traffic(peer);
  for (int r = 0; r < host.size; ++r) {
    report.ranks.push_back(report_of(host.peers[r], local_ranks[r], wanted));
    if (report.ranks.back().waits != elsewhere->waits_now[r]) report.ranks.back().state = kOutside;
    const bool elsewhere_too = r != host.rank;
    if (elsewhere_too) report.ranks.back().condition = report_on(local_ranks[r])->condition;
    report.is_last = r + 1 == host.size;
    if (!report.is_last && report.ranks.size() < HostReport::kMostRanks) continue;
    std::vector<std::byte> message = encode_host_report(report);
    message.insert(message.begin(), std::byte{kReportMessage});
    if (!links->send_control(peer, message).ok()) {
      RONDO_INFO(kNet, "cannot tell rank {} what this host does", peer);
      return;
    }
    report.ranks.clear();
  }
}

// Called while the links move: it may send, but raises nothing.
void CommunicatorState::on_host_report(int peer, std::span<const std::byte> message) {
  const std::optional<HostReport> report = decode_host_report(message, size);
  if (!report) {
    RONDO_INFO(kNet, "rank {} sent a report that cannot be read", peer);
    return;
  }
  know_elsewhere();
  const std::int64_t now = now_ns();
  for (const RankReport& theirs : report->ranks) {
    if (local_of(theirs.rank) >= 0) continue;
    Elsewhere::Rank& known = elsewhere->known[theirs.rank];
    known.report = theirs;
    known.heard = true;
    known.heard_ns = now;
    known.teller = peer;
    known.number = report->number;
  }
  elsewhere->news = true;
  if (report->is_question && report->is_last)
    return tell_host_report(peer, false, report->sequence);
  if (report->is_question) return;
  if (report->is_last) elsewhere->known[peer].asked = false;
  ProgressLine& progress = *host.self().progress;
  Elsewhere::Rank& known = elsewhere->known[peer];
  const RankReport& theirs = known.report;
  const bool for_them = HostAtomics::load_relaxed(progress.waiting_for) == peer;
  const bool for_me = theirs.waiting_for == rank;
  if (theirs.state != kWaiting || theirs.waits == 0 || (!for_them && !for_me)) return;
  if (!is_quiet(links->traffic(peer), report->traffic)) return;
  if (for_them) HostAtomics::store_release(progress.quiet, theirs.waits);
  if (!for_me || is_message(current)) return;
  known.quiet_waits = theirs.waits;
  known.quiet_sequence = host.sequence;
}

// Compares a call of theirs with this rank's own of that number, as long as its ring holds it.
bool CommunicatorState::differs_elsewhere(const RankReport& theirs) {
  if (theirs.shown == 0 || theirs.shown > host.sequence) return false;
  const AnnounceLine& line = host.self().announcements[theirs.shown % kAnnounceDepth];
  if (HostAtomics::load_relaxed(line.sequence) != theirs.shown) return false;
  const CallRecord mine = load_record(line.record);
  if (mine == theirs.announced && line.history == theirs.history) return false;
  raise_mismatch(theirs.rank, theirs.shown, mine, theirs.announced);
  return true;
}

}  // namespace rondo
