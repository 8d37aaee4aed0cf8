// SPDX-License-Identifier: Apache-2.0
#include "collectives/watch/host_meeting.h"

#include <ifaddrs.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <iterator>
#include <span>

#include "base/env.h"
#include "base/log.h"
#include "base/process.h"
#include "base/thread.h"
#include "transport/bootstrap/secret.h"
#include "transport/socket/tcp.h"
#include "transport/status/line_server.h"

namespace rondo::watch {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr const char* kMeet = "MEET ";  // a word of the status protocol
constexpr seconds kAnswerLimit{3};
constexpr milliseconds kFirstAfter{1000};  // until then the ranks of a host find each other
constexpr milliseconds kSoon{200}, kOften{1000}, kSeldom{10'000}, kPerProcess{20};  // pauses
constexpr milliseconds kLongestPause{30'000};
constexpr int kTriesPerPort = 2;  // another process of the job may have taken it just now

std::atomic<int> lookups{0};  // of names, under way

std::string place_of_job() {
  if (std::string id = env::get_string("NCCL_COMM_ID"); !id.empty()) return id;
  const char* const host = std::getenv("MASTER_ADDR");
  if (host == nullptr || *host == '\0') return "";
  const bool is_v6 = std::string_view(host).find(':') != std::string_view::npos;
  return is_v6 ? fmt::format("[{}]:1", host) : fmt::format("{}:1", host);
}

// Null: there is none.
std::optional<auth::Digest> shared_secret() {
  constexpr const char* kPurpose = "watched hosts";
  if (bootstrap::has_job_secret()) {
    const auto secret = bootstrap::session_secret(bootstrap::Secret());
    if (!secret.ok()) RONDO_INFO(kInit, "{}", secret.error().text);
    if (!secret.ok()) return std::nullopt;
    return secret->derive(kPurpose).bytes();
  }
  constexpr std::size_t kMinCharacters = 16;
  const std::string drawn = env::get_string("RONDO_WATCH_SECRET");
  if (drawn.size() < kMinCharacters) return std::nullopt;
  return auth::derive(auth::sha256({std::as_bytes(std::span(drawn))}), kPurpose);
}

bool is_own_address(const net::SocketAddress& address) {
  if (address.loopback()) return true;
  ifaddrs* first = nullptr;
  if (getifaddrs(&first) != 0) return false;
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> all(first, freeifaddrs);
  for (const ifaddrs* one = first; one != nullptr; one = one->ifa_next)
    if (one->ifa_addr != nullptr &&
        net::SocketAddress::from(one->ifa_addr).with_port(0) == address.with_port(0))
      return true;
  return false;
}

}  // namespace

HostMeeting::HostMeeting(std::string place, const auth::Digest& secret, Addresses own,
                         Resolve resolve)
    : place_(std::move(place)),
      secret_(secret),
      own_(std::move(own)),
      resolve_(std::move(resolve)),
      first_port_(static_cast<std::uint16_t>(env::get_int("RONDO_WATCH_PORT"))),
      next_(Clock::now() + kFirstAfter) {}

std::unique_ptr<HostMeeting> HostMeeting::open(Addresses own, Resolve resolve) {
  constexpr std::int64_t kMaxPort = 65535 - kPorts;
  const std::int64_t port = env::get_int("RONDO_WATCH_PORT");
  const std::string place = place_of_job();
  if (own.empty() || place.empty() || port <= 0 || port > kMaxPort) return nullptr;
  const auto secret = shared_secret();
  if (!secret) {
    RONDO_INFO(kInit, "other hosts do not find this process: no RONDO_SECRET");
    return nullptr;
  }
  return std::unique_ptr<HostMeeting>(
      new HostMeeting(place, *secret, std::move(own), std::move(resolve)));
}

Result<HostMeeting::Addresses> HostMeeting::resolve_place(const std::string& place) {
  RONDO_TRY(const net::HostPort name, net::parse_host_port(place));
  return net::resolve(name, AF_UNSPEC);
}

// The thread ends by itself: nobody waits for a name server.
void HostMeeting::look_up_place() {
  if (lookups.fetch_add(1) >= kMaxLookups) return void(--lookups);
  lookup_ = std::make_shared<Lookup>();
  auto started = Thread::start(
      "the place to meet",
      [lookup = lookup_, resolve = resolve_, place = place_] {
        Result<Addresses> found = resolve(place);
        --lookups;
        std::lock_guard lock(lookup->mutex);
        lookup->found = std::move(found);
      },
      [](const Error&) {});
  if (started.ok()) return started->detach();
  --lookups;
  lookup_->found = started.error();
}

// On the host of the place its name may stand for a loopback address.
bool HostMeeting::knows_place() {
  if (!asked_at_.empty()) return true;
  if (!lookup_) look_up_place();
  if (!lookup_) return false;
  std::optional<Result<Addresses>> found;
  {
    std::lock_guard lock(lookup_->mutex);
    found = std::move(lookup_->found);
  }
  if (!found) return false;
  lookup_.reset();
  if (!found->ok()) {
    RONDO_INFO(kNet, "other hosts are not found: {}", found->error().text);
    next_ = Clock::now() + kLongestPause;
    return false;
  }
  is_here_ = std::any_of((*found)->begin(), (*found)->end(), is_own_address);
  asked_at_ = is_here_ ? own_ : **found;
  return !asked_at_.empty();
}

void HostMeeting::update(std::set<RankName> ranks, std::set<std::uint64_t> lacking) {
  if (ranks != ranks_) unchanged_ = 0;
  if (ranks != ranks_ || lacking != lacking_) next_ = std::min(next_, Clock::now() + kFirstAfter);
  ranks_ = std::move(ranks);
  lacking_ = std::move(lacking);
  std::set<std::uint64_t> hashes;
  for (const auto& [hash, rank] : ranks_) hashes.insert(hash);
  std::erase_if(others_, [&](const auto& other) { return !hashes.contains(other.first.first); });
}

void HostMeeting::step() {
  if (question_) {
    question_->step();
    if (!question_->is_over()) return;
    take(question_->answer());
    question_.reset();
    next_ = listens_ ? Clock::now() : Clock::now() + pause();  // the first report is its own
  }
  if (ranks_.empty() || Clock::now() < next_) return;
  if (knows_place()) ask();
}

milliseconds HostMeeting::pause() const {
  constexpr int kQuickTries = 2;  // at first, all processes of a job begin to meet
  if (unanswered_ > 0 && unanswered_ <= kQuickTries) return unanswered_ * kSoon;
  if (unanswered_ > 0) return std::min(kLongestPause, (unanswered_ - kQuickTries) * kOften);
  const milliseconds of_all = static_cast<milliseconds::rep>(others_.size()) * kPerProcess;
  if (lacking_.empty()) return std::max(kSeldom, of_all);
  if (unchanged_ == 0) return std::max(kSoon, of_all / 10);
  return std::min(std::max(kSeldom, of_all), unchanged_ * kOften);
}

void HostMeeting::ask() {
  WatchedProcess own = WatchedProcess::own();
  own.addresses = own_;
  own.ranks.assign(ranks_.begin(), ranks_.end());
  if (listens_) {
    note(std::move(own));
    learn(reports_since(0, lacking_));
    next_ = Clock::now() + pause();
    return;
  }
  // Reports that were not asked for when they came are not sent again.
  if (!std::includes(hashes_.begin(), hashes_.end(), lacking_.begin(), lacking_.end()))
    answered_to_ = 0;
  hashes_ = lacking_;
  const MeetingRequest request{answered_by_, answered_to_, lacking_, std::move(own)};
  status::Question::Rank place{.addresses = {}, .secret = secret_, .endpoint = kEndpoint};
  const net::SocketAddress& at =
      asked_at_[static_cast<std::size_t>(unanswered_) % asked_at_.size()];
  for (int i = 0; i < kPorts; ++i)
    place.addresses.push_back(at.with_port(static_cast<std::uint16_t>(first_port_ + i)));
  question_ = status::Question::to_rank(place, kMeet + request.text(), Clock::now() + kAnswerLimit);
}

void HostMeeting::take(const Result<std::string>& answer) {
  if (!answer.ok()) {
    if (is_here_) listen();
    if (listens_) return;
    if (++unanswered_ == 1 && !is_here_)
      RONDO_INFO(kNet, "other hosts are not found at {}: {}", place_, answer.error().text);
    return;
  }
  auto reported = MeetingAnswer::parse(*answer);
  if (!reported.ok()) {
    ++unanswered_;
    RONDO_INFO(kNet, "other hosts are not found at {}: {}", place_, reported.error().text);
    return;
  }
  learn(std::move(reported->processes));
  answered_by_ = reported->reported_by;
  answered_to_ = reported->newest;
  unanswered_ = 0;
}

// A port that another process has is tried again: that one may be of this job, and answer now.
void HostMeeting::listen() {
  if (listens_) return;
  const int index = unanswered_ / kTriesPerPort % kPorts;
  const auto port = static_cast<std::uint16_t>(first_port_ + index);
  std::vector<net::Socket> sockets;
  for (const net::SocketAddress& address : own_)
    if (auto socket = net::listen_tcp(address.with_port(port)); socket.ok())
      sockets.push_back(std::move(*socket));
  if (sockets.size() < own_.size()) return;
  auto acceptor = auth::Acceptor::open(std::move(sockets), {.endpoint = kEndpoint});
  if (!acceptor.ok()) return;
  acceptor_ = std::move(*acceptor);
  listens_ = true;
  answered_to_ = 0;
  unanswered_ = 0;
  RONDO_INFO(kNet, "watched processes of other hosts meet at port {} of this one", port);
}

void HostMeeting::note(WatchedProcess process) {
  const auto [at, is_new] = reports_.try_emplace(process.process);
  const bool is_same =
      !is_new && at->second.process.to_json(false).text(-1) == process.to_json(false).text(-1);
  if (is_same) return;
  at->second = {++newest_, std::move(process)};
  if (reports_.size() <= MeetingAnswer::kMaxProcesses) return;
  reports_.erase(std::min_element(
      reports_.begin(), reports_.end(),
      [](const auto& a, const auto& b) { return a.second.number < b.second.number; }));
}

std::vector<WatchedProcess> HostMeeting::reports_since(
    std::uint64_t number, const std::set<std::uint64_t>& hashes) const {
  std::vector<WatchedProcess> processes;
  for (const auto& [name, report] : reports_)
    if (report.number > number &&
        std::any_of(report.process.ranks.begin(), report.process.ranks.end(),
                    [&](const RankName& rank) { return hashes.contains(rank.first); }))
      processes.push_back(report.process);
  return processes;
}

void HostMeeting::learn(std::vector<WatchedProcess> processes) {
  ++unchanged_;
  for (WatchedProcess& process : processes) {
    if (process.process == this_process()[0]) continue;
    process.secret = secret_;
    const std::vector<RankName> names = std::exchange(process.ranks, {});
    for (const RankName& name : names) {
      if (!lacking_.contains(name.first)) continue;
      process.ranks = {name};
      if (others_.insert_or_assign(name, process).second) unchanged_ = 0;
    }
  }
}

std::string HostMeeting::answer(std::string_view request) {
  if (!listens_) return "ERROR: nobody meets here\n";
  auto asked = MeetingRequest::parse(request);
  if (!asked.ok()) return fmt::format("ERROR: {}\n", asked.error().text);
  note(std::move(asked->own));
  const bool knows = asked->reported_by == this_process()[0];
  return MeetingAnswer{this_process()[0], newest_,
                       reports_since(knows ? asked->since : 0, asked->communicators)}
      .text();
}

}  // namespace rondo::watch
