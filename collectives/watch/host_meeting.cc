// SPDX-License-Identifier: Apache-2.0
#include "collectives/watch/host_meeting.h"

#include <ifaddrs.h>

#include <algorithm>
#include <cstdlib>
#include <span>

#include "base/env.h"
#include "base/log.h"
#include "base/process.h"
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
constexpr milliseconds kOften{1000}, kSeldom{10'000}, kPerProcess{20};  // pauses
constexpr milliseconds kLongestPause{30'000};
constexpr int kTriesPerPort = 2;  // another process of the job may have taken it just now

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

HostMeeting::HostMeeting(std::string place, const auth::Digest& secret,
                         std::vector<net::SocketAddress> own)
    : place_(std::move(place)),
      secret_(secret),
      own_(std::move(own)),
      first_port_(static_cast<std::uint16_t>(env::get_int("RONDO_WATCH_PORT"))),
      next_(Clock::now() + kFirstAfter) {}

std::unique_ptr<HostMeeting> HostMeeting::open(std::vector<net::SocketAddress> own) {
  constexpr std::int64_t kMaxPort = 65535 - kPorts;
  const std::int64_t port = env::get_int("RONDO_WATCH_PORT");
  const std::string place = place_of_job();
  if (own.empty() || place.empty() || port <= 0 || port > kMaxPort) return nullptr;
  const auto secret = shared_secret();
  if (!secret) {
    RONDO_INFO(kInit, "other hosts do not find this process: no RONDO_SECRET");
    return nullptr;
  }
  return std::unique_ptr<HostMeeting>(new HostMeeting(place, *secret, std::move(own)));
}

// On the host of the place its name may stand for a loopback address.
void HostMeeting::find_place() {
  if (std::exchange(has_looked_, true)) return;
  const auto place = net::parse_host_port(place_);
  const auto found = place.ok() ? net::resolve(*place, AF_UNSPEC)
                                : Result<std::vector<net::SocketAddress>>(place.error());
  if (!found.ok()) RONDO_INFO(kNet, "other hosts are not found: {}", found.error().text);
  if (!found.ok()) return;
  is_here_ = std::any_of(found->begin(), found->end(), is_own_address);
  asked_at_ = is_here_ ? own_ : *found;
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
    next_ = Clock::now() + pause();
  }
  if (ranks_.empty() || Clock::now() < next_) return;
  find_place();
  if (!asked_at_.empty()) ask();
}

milliseconds HostMeeting::pause() const {
  if (unanswered_ > 0) return std::min(kLongestPause, unanswered_ * kOften);
  const milliseconds seldom =
      std::max(kSeldom, static_cast<milliseconds::rep>(others_.size()) * kPerProcess);
  return lacking_.empty() ? seldom : std::min(seldom, (1 + unchanged_) * kOften);
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
  Json hashes = Json::array();
  for (const std::uint64_t hash : lacking_) hashes.push_back(hex_of(hash));
  const Json request{{"reported_by", hex_of(answered_by_)},
                     {"since", answered_to_},
                     {"communicators", std::move(hashes)},
                     {"own", own.to_json(false)}};
  status::Question::Rank place{.addresses = {}, .secret = secret_, .endpoint = kEndpoint};
  const net::SocketAddress& at =
      asked_at_[static_cast<std::size_t>(unanswered_) % asked_at_.size()];
  for (int i = 0; i < kPorts; ++i)
    place.addresses.push_back(at.with_port(static_cast<std::uint16_t>(first_port_ + i)));
  question_ =
      status::Question::to_rank(place, kMeet + request.text(-1), Clock::now() + kAnswerLimit);
}

void HostMeeting::take(const Result<std::string>& answer) {
  if (!answer.ok()) {
    if (is_here_) listen();
    if (listens_) return;
    if (++unanswered_ == 1 && !is_here_)
      RONDO_INFO(kNet, "other hosts are not found at {}: {}", place_, answer.error().text);
    return;
  }
  try {
    const Json reported = Json::parse(*answer);
    const std::uint64_t by = number_of(reported.at("reported_by").string());
    learn(reported.at("processes"));
    answered_by_ = by;
    answered_to_ = number_of(reported.at("newest").string());
    unanswered_ = 0;
  } catch (const JsonError& error) {
    ++unanswered_;
    RONDO_INFO(kNet, "other hosts are not found at {}: {}", place_, error.what());
  }
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
  if (reports_.size() <= kMaxProcesses) return;
  reports_.erase(std::min_element(
      reports_.begin(), reports_.end(),
      [](const auto& a, const auto& b) { return a.second.number < b.second.number; }));
}

Json HostMeeting::reports_since(std::uint64_t number, const std::set<std::uint64_t>& hashes) const {
  Json processes = Json::array();
  for (const auto& [name, report] : reports_)
    if (report.number > number &&
        std::any_of(report.process.ranks.begin(), report.process.ranks.end(),
                    [&](const RankName& rank) { return hashes.contains(rank.first); }))
      processes.push_back(report.process.to_json(false));
  return processes;
}

void HostMeeting::learn(const Json& processes) {
  ++unchanged_;
  for (const Json& each : processes.elements()) {
    auto process = WatchedProcess::parse(each, false);
    if (!process.ok() || process->process == this_process()[0]) continue;
    process->secret = secret_;
    const std::vector<RankName> names = std::exchange(process->ranks, {});
    for (const RankName& name : names) {
      if (!lacking_.contains(name.first)) continue;
      process->ranks = {name};
      if (others_.insert_or_assign(name, *process).second) unchanged_ = 0;
    }
  }
}

std::string HostMeeting::answer(std::string_view request) {
  if (!listens_) return "ERROR: nobody meets here\n";
  try {
    const Json asked = Json::parse(request);
    auto process = WatchedProcess::parse(asked.at("own"), false);
    if (!process.ok()) throw JsonError(process.error().text);
    std::set<std::uint64_t> hashes;
    for (const Json& hash : asked.at("communicators").elements())
      hashes.insert(number_of(hash.string()));
    const double since = asked.at("since").number();
    const bool knows =
        number_of(asked.at("reported_by").string()) == this_process()[0] && since >= 0;
    note(std::move(*process));
    return Json{{"reported_by", hex_of(this_process()[0])},
                {"newest", hex_of(newest_)},
                {"processes", reports_since(knows ? static_cast<std::uint64_t>(since) : 0, hashes)}}
        .text(-1);
  } catch (const JsonError& error) {
    return fmt::format("ERROR: {}\n", error.what());
  }
}

}  // namespace rondo::watch
