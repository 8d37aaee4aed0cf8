// SPDX-License-Identifier: Apache-2.0
#include "collectives/status/gather.h"

#include <algorithm>
#include <cassert>
#include <map>

#include "base/log.h"
#include "base/seconds.h"
#include "collectives/status/diagnosis.h"
#include "collectives/status/watched_ranks.h"

namespace rondo {
namespace {

constexpr std::size_t kMaxCandidates = 4;  // of a host
constexpr double kNoLimitSeconds = 60;

// Processes of a watched job learn of each other in its first seconds: one of the silent host that
// would answer may not be known yet.
bool knows_all_ranks(const CommunicatorView& communicator) {
  const auto& ranks = communicator.ranks;
  return std::none_of(ranks.begin(), ranks.end(),
                      [](const RankView& rank) { return rank.watched.has_value(); }) ||
         ranks.size() >= static_cast<std::size_t>(communicator.size);
}

}  // namespace

Gather::Gather(const OwnRanks& ranks, const status::UserFolder* folder, Query query, Write write)
    : ranks_(ranks),
      folder_(folder),
      query_(std::move(query)),
      write_(std::move(write)),
      deadline_(began_ + to_nanoseconds(query_.timeout_seconds > 0 ? query_.timeout_seconds
                                                                   : kNoLimitSeconds)),
      view_(ranks.view()) {
  find_sources();
}

// All processes, then those that have become known since.
void Gather::find_sources() {
  if (query_.scope == kOwn) return;
  std::map<std::uint64_t, std::size_t> source_of_host;
  std::set<std::uint64_t> known;
  for (std::size_t i = 0; i < sources_.size(); ++i) {
    for (const PeerProcessAddress& peer : sources_[i].candidates) known.insert(peer.name.process);
    const PeerProcessAddress& first = sources_[i].candidates.front();
    if (!first.same_host) source_of_host.emplace(first.host, i);
  }
  for (PeerProcessAddress& peer : ranks_.peers(view_)) {
    if (!known.insert(peer.name.process).second) continue;
    if (peer.same_host) {
      if (folder_ != nullptr) sources_.push_back({.candidates = {std::move(peer)}, .asked = {}});
      continue;
    }
    if (query_.scope != kJob) continue;
    const auto [at, is_new] = source_of_host.emplace(peer.host, sources_.size());
    if (is_new) sources_.emplace_back();
    Source& source = sources_[at->second];
    if (source.candidates.size() == kMaxCandidates) continue;
    source.candidates.push_back(std::move(peer));
    source.began = source.next_at = net::Clock::now();  // its host's time begins anew
    if (source.has_answered) continue;
    source.is_over = false;
    std::erase(view_.silent, source.candidates.front().text);
  }
}

std::size_t Gather::under_way() const {
  return static_cast<std::size_t>(
      std::count_if(sources_.begin(), sources_.end(),
                    [](const Source& source) { return !source.is_over && !source.asked.empty(); }));
}

void Gather::ask_next(Source& source) {
  assert(source.asked.size() < source.candidates.size());
  const PeerProcessAddress& peer = source.candidates[source.asked.size()];
  const auto now = net::Clock::now();
  if (source.asked.empty()) source.began = now;
  source.next_at = now + kNextAfter;
  if (peer.same_host) {
    source.asked.push_back(status::Question::to_socket(folder_->path_of(peer.name),
                                                       query_.verb + " OWN" + query_.argument,
                                                       std::min(deadline_, now + kLocalLimit)));
  } else {
    source.asked.push_back(
        status::Question::to_rank(peer.rank, query_.verb + " HOST" + query_.argument, deadline_));
  }
}

void Gather::step(Source& source) {
  if (source.asked.empty()) ask_next(source);
  bool all_over = true;
  for (std::size_t i = 0; i < source.asked.size(); ++i) {
    status::Question& question = source.asked[i];
    question.step();
    all_over &= question.is_over();
    if (!question.is_over()) continue;
    auto view = question.answer().ok() ? JobView::from_json(*question.answer())
                                       : Result<JobView>(question.answer().error());
    if (view.ok()) {
      view_.merge(std::move(*view));
      source.is_over = source.has_answered = true;
      slowest_ = std::max(slowest_, net::Clock::now() - source.began);
      return;
    }
    source.why = view.error();
  }
  const bool more = source.asked.size() < source.candidates.size();
  if (more && (all_over || net::Clock::now() >= source.next_at)) return ask_next(source);
  if (!all_over || more) return;
  give_up(source);
}

// A process of this host that has no status socket has ended, or has NCCL_RAS_ENABLE=0.
void Gather::give_up(Source& source) {
  assert(!source.candidates.empty() && !source.is_over);
  source.is_over = true;
  const PeerProcessAddress& first = source.candidates.front();
  RONDO_INFO(kNet, "{} gave no status: {}", first.text, source.why.text);
  if (!first.same_host || source.why.code == StatusCode::kTimeout)
    view_.silent.push_back(first.text);
}

void Gather::add_entries(std::vector<pollfd>* entries) const {
  for (const Source& source : sources_)
    if (!source.is_over)
      for (const status::Question& question : source.asked) question.add_entries(entries);
}

net::Clock::time_point Gather::next() const {
  auto next = sources_.empty() ? net::Clock::now() : std::min(deadline_, next_round_);
  for (const Source& source : sources_) {
    if (source.is_over || source.asked.empty()) continue;
    if (source.asked.size() < source.candidates.size()) next = std::min(next, source.next_at);
    for (const status::Question& question : source.asked)
      next = std::min(next, question.is_over() ? next : question.next());
  }
  return next;
}

void Gather::step_all() {
  std::size_t room = kMaxAtOnce - std::min(kMaxAtOnce, under_way());
  for (Source& source : sources_) {
    if (source.is_over) continue;
    if (source.asked.empty() && net::Clock::now() < deadline_) {
      if (room == 0) continue;
      --room;
    }
    step(source);
  }
}

// All others have answered, or cannot be reached.
bool Gather::only_silent_left() const {
  const auto now = net::Clock::now();
  bool any = false;
  for (const Source& source : sources_) {
    if (source.is_over) continue;
    if (source.asked.empty() || source.candidates.front().same_host) return false;
    if (now < source.began + kNextAfter) return false;
    any = true;
  }
  return any;
}

bool Gather::is_silent(const Source& source, net::Clock::time_point now) const {
  auto alive = source.began;
  for (const status::Question& question : source.asked)
    alive = std::max(alive, question.alive_at());
  return now - alive >=
         std::clamp<net::Clock::duration>(kTimesSlower * slowest_, kSilentAfter, kLongestSilence);
}

// Those that have not answered.
std::set<std::uint64_t> Gather::silent_hosts() const {
  std::set<std::uint64_t> hosts;
  for (const Source& source : sources_)
    if (!source.has_answered && !source.candidates.front().same_host)
      hosts.insert(source.candidates.front().host);
  return hosts;
}

bool Gather::are_all_over() const {
  return std::all_of(sources_.begin(), sources_.end(),
                     [](const Source& source) { return source.is_over; });
}

// The processes of a host that are known have ended, but others of it may become known.
bool Gather::may_find_answer() const {
  if (query_.scope != kJob || silent_hosts().empty()) return false;
  JobView view = view_;
  ranks_.add_silent(silent_hosts(), &view);
  return !std::all_of(view.communicators.begin(), view.communicators.end(), knows_all_ranks);
}

// True if ranks wait long for ranks of hosts that are silent.
bool Gather::explains_hang() const {
  const auto now = net::Clock::now();
  for (const Source& source : sources_)
    if (!source.is_over && !is_silent(source, now)) return false;
  JobView view = view_;
  ranks_.add_silent(silent_hosts(), &view);
  find_awaited(&view);
  const std::vector<Blame> blames = diagnose(view);
  return !blames.empty() && blames.front().kind == Blame::kSilent &&
         knows_all_ranks(view.communicators[blames.front().communicator]);
}

// Silent hosts stay asked.
void Gather::begin_round() {
  view_ = ranks_.view();
  next_round_ = net::Clock::now() + kRoundAfter;
  for (Source& source : sources_) {
    if (!source.is_over) continue;
    source.asked.clear();
    source.is_over = source.has_answered = false;
  }
}

bool Gather::step(std::string* out) {
  const auto now = net::Clock::now();
  if (now > due_) slowest_ = std::max(slowest_, now - due_);
  const bool is_over = step_until_over(out);
  if (!is_over) due_ = next();
  return is_over;
}

bool Gather::step_until_over(std::string* out) {
  step_all();
  if (are_all_over() && query_.scope == kJob && !silent_hosts().empty()) {
    find_sources();
    step_all();
  }
  const bool all_over = are_all_over();
  if (net::Clock::now() < deadline_ && (!all_over || may_find_answer())) {
    if (net::Clock::now() < next_round_) return false;
    next_round_ = net::Clock::now() + kRoundAfter;
    find_sources();
    if (!all_over && (query_.scope != kJob || !only_silent_left())) return false;
    if (all_over || !explains_hang()) {
      begin_round();
      step_all();
      return false;
    }
  }
  for (Source& source : sources_)
    if (!source.is_over) give_up(source);
  if (query_.scope == kJob) ranks_.add_silent(silent_hosts(), &view_);
  find_awaited(&view_);
  view_.collection_seconds = std::chrono::duration<double>(net::Clock::now() - began_).count();
  *out += write_(view_);
  return true;
}

}  // namespace rondo
