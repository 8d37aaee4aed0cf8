// SPDX-License-Identifier: Apache-2.0
#include "collectives/status/own_ranks.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <set>

#include "base/env.h"
#include "base/seconds.h"
#include "base/text_file.h"
#include "collectives/faults/standstill.h"
#include "collectives/status/inspect.h"
#include "transport/bootstrap/rendezvous.h"
#include "transport/bootstrap/unique_id.h"
#include "transport/status/line_server.h"

namespace rondo {
namespace {

std::uint64_t hash_of(const auth::Tag& tag) {
  std::uint64_t hash = 0;
  std::memcpy(&hash, tag.data(), sizeof(hash));
  return hash | 1;  // 0: unknown
}

std::map<std::string, std::string> settings() {
  std::map<std::string, std::string> found;
  for (const auto& [name, value] : env::set_anywhere()) {
    const env::Variable* const known = env::find(name);
    if (known != nullptr && known->type != env::Type::kSecret) found[name] = value;
  }
  return found;
}

std::vector<net::SocketAddress> addresses_of(const RankFacts& facts) {
  const auto contents = bootstrap::decode_id(facts.address);
  return contents.ok() ? contents->addresses : std::vector<net::SocketAddress>();
}

std::string ip_of(const RankFacts& facts) {
  const auto addresses = addresses_of(facts);
  return addresses.empty() ? "" : ip_text(addresses.front());
}

void show_facts(const OwnRank& own, const RankFacts& facts, RankView* view) {
  view->rank = facts.rank;
  view->pid = facts.pid;
  view->process = facts.process[0];
  view->host = facts.hostname;
  view->address = ip_of(facts);
  if (!own.devices.empty()) view->device = own.devices[static_cast<std::size_t>(facts.rank)];
}

CommunicatorView communicator_view(const OwnRank& own) {
  const RankContext& context = *own.context;
  const Membership& members = context.members;
  CommunicatorView view;
  view.name = own.name;
  view.hash = status_hash(own.secret);
  view.host_hash = members.ranks[0].host;
  view.process_hash = members.ranks[0].process[0];
  view.size = members.size;
  std::uint64_t newest = 0;
  for (int local = 0; local < context.host.size; ++local)
    newest = std::max(newest, report_of(context.host.peers[local], local).entered());
  for (int local = 0; local < context.host.size; ++local) {
    const RankFacts& facts = members.ranks[static_cast<std::size_t>(members.local_ranks[local])];
    RankView rank;
    if (HostAtomics::load_acquire(context.host.peers[local].identity->pid) == 0) {
      rank.state = "not_joined";
      rank.doing = "not joined yet";
    } else {
      rank = rank_view({context.host.peers[local], members.group->segment->activity(local)},
                       condition_of(members, context.host, local), newest);
    }
    show_facts(own, facts, &rank);
    view.ranks.push_back(std::move(rank));
  }
  return view;
}

std::string doing_of(const JoiningRank& joining, double seconds) {
  const bootstrap::JoinNews& news = joining.news;
  const std::string ranks = bootstrap::name_ranks(news.absent);
  if (news.joined == joining.size) return "sets up the communicator: all ranks have joined";
  if (news.joined == 0)
    return news.absent.empty()
               ? "joins the other ranks"
               : fmt::format("waits for the rendezvous of {}, for {:.1f} s", ranks, seconds);
  return fmt::format("has joined; waits for {}, for {:.1f} s", ranks, seconds);
}

CommunicatorView communicator_view(const JoiningRank& joining, const std::string& host) {
  CommunicatorView view;
  view.name = joining.name;
  view.hash = hash_of(joining.news.tag);
  view.size = joining.size;
  view.joined = joining.news.joined;
  for (const int absent : joining.news.absent)
    view.ranks.push_back({.rank = absent, .state = "not_joined", .doing = "not joined yet"});
  RankView own{.rank = joining.rank, .pid = getpid(), .state = "joining"};
  own.process = this_process()[0];
  own.host = host;
  own.waits_seconds = static_cast<double>(now_ns() - joining.began_ns) * 1e-9;
  own.doing = doing_of(joining, own.waits_seconds);
  const auto at = std::find_if(view.ranks.begin(), view.ranks.end(),
                               [&](const RankView& rank) { return rank.rank > own.rank; });
  view.ranks.insert(at, std::move(own));
  return view;
}

}  // namespace

std::uint64_t status_hash(const auth::Digest& secret) { return hash_of(auth::tag_of(secret)); }

status::Question::Rank OwnRank::question_to(int rank) const {
  const RankFacts& facts = context->members.ranks[static_cast<std::size_t>(rank)];
  const std::uint16_t port = ports.empty() ? 0 : ports[static_cast<std::size_t>(rank)];
  status::Question::Rank asked{.addresses = {},
                               .secret = secret,
                               .endpoint = status::LineServer::endpoint_of(facts.process[0])};
  if (port == 0) return asked;
  for (const net::SocketAddress& address : addresses_of(facts))
    asked.addresses.push_back(address.with_port(port));
  return asked;
}

void OwnRanks::add(const JoiningRank* rank) {
  std::lock_guard lock(mutex_);
  joining_.push_back(rank);
}

void OwnRanks::remove(const JoiningRank* rank) {
  std::lock_guard lock(mutex_);
  std::erase(joining_, rank);
}

void OwnRanks::note(JoiningRank* rank, const bootstrap::JoinNews& news) {
  std::lock_guard lock(mutex_);
  rank->news = news;
}
void OwnRanks::add(const OwnRank* rank) {
  std::lock_guard lock(mutex_);
  ranks_.push_back(rank);
}

void OwnRanks::remove(const OwnRank* rank) {
  std::lock_guard lock(mutex_);
  std::erase(ranks_, rank);
}

JobView OwnRanks::view() const {
  JobView view;
  std::lock_guard lock(mutex_);
  for (const OwnRank* rank : ranks_) {
    const std::uint64_t hash = status_hash(rank->secret);
    const auto known = std::find_if(view.communicators.begin(), view.communicators.end(),
                                    [&](const CommunicatorView& one) { return one.hash == hash; });
    if (known == view.communicators.end()) view.communicators.push_back(communicator_view(*rank));
  }
  const std::string host =
      ranks_.empty() ? own_host_name() : ranks_[0]->context->members.own().hostname;
  for (const JoiningRank* rank : joining_) {
    JobView joining;
    joining.communicators.push_back(communicator_view(*rank, host));
    view.merge(std::move(joining));
  }
  if (const WatchedRanks* const watched = watched_) watched->add_to(&view);
  view.processes.push_back({getpid(), this_process()[0], host, command_of(getpid()),
                            env::get_string("RONDO_JOB"), settings(), links()});
  return view;
}

std::vector<LinkView> OwnRanks::links() const {
  std::map<std::string, std::string> hosts;  // by address
  for (const OwnRank* own : ranks_) {
    const Membership& members = own->context->members;
    if (members.shape.hosts() == 1) continue;
    for (const RankFacts& facts : members.ranks)
      if (members.local_of(facts.rank) < 0)
        for (const net::SocketAddress& address : addresses_of(facts))
          hosts.emplace(ip_text(address), facts.hostname);
  }
  return hosts.empty() ? std::vector<LinkView>() : meter_.read(hosts, rails());
}

LinkMeter::Rails OwnRanks::rails() const {
  LinkMeter::Rails all;
  for (const OwnRank* own : ranks_) {
    const Membership& members = own->context->members;
    const shm::ActivityLine* const activity = own->context->activity;
    if (members.shape.hosts() == 1 || activity == nullptr) continue;
    for (const RailCounters& rail : activity->rails) {
      const std::uint64_t busy_ns = HostAtomics::load_relaxed(rail.busy_ns);
      const std::int32_t host = HostAtomics::load_acquire(rail.host);
      if (busy_ns == 0 || host < 0) continue;  // not counted, or of several hosts
      const auto peer = std::find_if(
          members.ranks.begin(), members.ranks.end(),
          [&](const RankFacts& facts) { return members.shape.host_of(facts.rank) == host; });
      if (peer == members.ranks.end()) continue;
      LinkMeter::RailTraffic& sum = all[{rail.port, peer->hostname}];
      sum.sent_bytes += HostAtomics::load_relaxed(rail.sent_bytes);
      sum.received_bytes += HostAtomics::load_relaxed(rail.received_bytes);
      sum.busy_ns += busy_ns;
    }
  }
  return all;
}

std::vector<PeerProcessAddress> OwnRanks::peers(const JobView& without) const {
  std::set<std::uint64_t> seen{this_process()[0]};
  for (const CommunicatorView& communicator : without.communicators)
    for (const RankView& rank : communicator.ranks)
      if (rank.state == "ended" || rank.state == "stopped") seen.insert(rank.process);
  std::vector<PeerProcessAddress> peers;
  std::lock_guard lock(mutex_);
  for (const OwnRank* own : ranks_) {
    const Membership& members = own->context->members;
    for (const RankFacts& facts : members.ranks) {
      const bool same_host = members.local_of(facts.rank) >= 0;
      const auto rank = static_cast<std::size_t>(facts.rank);
      if (!same_host && (own->ports.empty() || own->ports[rank] == 0)) continue;
      if (!seen.insert(facts.process[0]).second) continue;
      PeerProcessAddress peer;
      peer.name = {facts.pid, facts.process[0]};
      peer.text = fmt::format("process {} on {}", facts.pid, facts.hostname);
      peer.host = facts.host;
      peer.same_host = same_host;
      if (!same_host) peer.rank = own->question_to(facts.rank);
      peers.push_back(std::move(peer));
    }
  }
  if (const WatchedRanks* const watched = watched_) {
    std::vector<PeerProcessAddress> others;
    watched->add_peers(&others);
    for (PeerProcessAddress& peer : others)
      if (seen.insert(peer.name.process).second) peers.push_back(std::move(peer));
  }
  std::stable_partition(peers.begin(), peers.end(),
                        [](const PeerProcessAddress& peer) { return peer.same_host; });
  return peers;
}

void OwnRanks::add_silent(const std::set<std::uint64_t>& hosts, JobView* view) const {
  if (const WatchedRanks* const watched = watched_) watched->add_silent(hosts, view);
  JobView missing;
  std::lock_guard lock(mutex_);
  for (const OwnRank* own : ranks_) {
    CommunicatorView communicator;
    communicator.hash = status_hash(own->secret);
    for (const RankFacts& facts : own->context->members.ranks) {
      if (!hosts.contains(facts.host)) continue;
      RankView rank;
      show_facts(*own, facts, &rank);
      rank.state = "silent";
      communicator.ranks.push_back(std::move(rank));
    }
    missing.communicators.push_back(std::move(communicator));
  }
  view->merge(std::move(missing));
}

std::vector<std::pair<auth::Tag, auth::Digest>> OwnRanks::secrets() const {
  std::vector<std::pair<auth::Tag, auth::Digest>> all;
  if (const WatchedRanks* const watched = watched_) all = watched->secrets();
  std::lock_guard lock(mutex_);
  for (const OwnRank* rank : ranks_) all.emplace_back(auth::tag_of(rank->secret), rank->secret);
  return all;
}

}  // namespace rondo
