// SPDX-License-Identifier: Apache-2.0
#include "collectives/status/monitor.h"

#include <algorithm>
#include <utility>

#include "base/printable.h"
#include "collectives/status/ras_report.h"
#include "topology/small_file.h"

namespace rondo {
namespace {

bool same_word(std::string_view text, std::string_view word) {
  return std::equal(text.begin(), text.end(), word.begin(), word.end(),
                    [](char a, char b) { return (a | 0x20) == b; });
}

}  // namespace

MonitorGroups MonitorGroups::parse(std::string_view text, std::string* unknown) {
  MonitorGroups groups;
  if (text.empty()) groups.lifecycle = true;
  while (!text.empty()) {
    const std::string_view word = topology::take_until(text, ',');
    const bool all = same_word(word, "all");
    if (!all && !same_word(word, "lifecycle") && !same_word(word, "trace"))
      *unknown = printable(word);
    groups.lifecycle |= all || same_word(word, "lifecycle");
    groups.trace |= all || same_word(word, "trace");
  }
  return groups;
}

void Monitor::add_entries(std::vector<pollfd>* entries) const {
  if (gather_) gather_->add_entries(entries);
}

net::Clock::time_point Monitor::next() const { return gather_ ? gather_->next() : next_look_; }

bool Monitor::step(std::string* out) {
  if (!gather_) {
    if (net::Clock::now() < next_look_) return false;
    gather_ =
        start_([this](const JobView& view) { return found_ = peers_of(view), std::string(); });
  }
  std::string none;
  if (!gather_->step(&none)) return false;
  gather_.reset();
  next_look_ = net::Clock::now() + kPeriod;
  compare(std::exchange(found_, {}), out);
  return false;
}

Monitor::Peers Monitor::peers_of(const JobView& view) {
  Peers peers;
  for (const CommunicatorView& communicator : view.communicators) {
    for (const RankView& rank : communicator.ranks) {
      if (rank.process == 0) continue;
      Peer& peer = peers[rank.process];
      peer.host = rank.address.empty() ? rank.host : rank.address;
      peer.pid = rank.pid;
      const bool is_new =
          std::find(peer.devices.begin(), peer.devices.end(), rank.device) == peer.devices.end();
      if (rank.device >= 0 && is_new) peer.devices.push_back(rank.device);
      if (rank.state == "ended") peer.presence = kDead;
      if (rank.state == "silent" || rank.state == "stopped")
        peer.presence = std::max(peer.presence, kSilent);
    }
  }
  return peers;
}

// A process that left the job in order is no longer in the view, and is not dead.
void Monitor::compare(Peers now, std::string* out) {
  for (const auto& [process, peer] : now) {
    const auto known = known_.find(process);
    if (!has_known_) break;
    if (known == known_.end()) {
      report(true, "PEER_NEW", peer, "", out);
      continue;
    }
    const Presence before = known->second.presence;
    if (peer.presence == before) continue;
    if (peer.presence == kDead) report(true, "PEER_DEAD", peer, "its process has ended", out);
    if (peer.presence == kSilent) report(false, "PEER_UNRESPONSIVE", peer, "no answer", out);
    if (peer.presence == kAnswers) report(false, "PEER_RECOVERED", peer, "", out);
  }
  known_ = std::move(now);
  has_known_ = true;
}

void Monitor::report(bool lifecycle, std::string_view event, const Peer& peer,
                     std::string_view details, std::string* out) const {
  if (lifecycle ? !groups_.lifecycle : !groups_.trace) return;
  if (!json_) {
    *out +=
        fmt::format("[{}] {}: {}:{} {}\n", ras_timestamp(), event, peer.host, peer.pid, details);
    return;
  }
  const Json object{{"timestamp", ras_timestamp()},
                    {"group", lifecycle ? "LIFECYCLE" : "TRACE"},
                    {"event", event},
                    {"peer", Json{{"host", peer.host},
                                  {"pid", peer.pid},
                                  {"cuda_devs", peer.devices},
                                  {"nvml_devs", peer.devices}}},
                    {"details", details}};
  *out += object.text(2) + '\n';
}

}  // namespace rondo
