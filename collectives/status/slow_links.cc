// SPDX-License-Identifier: Apache-2.0
#include "collectives/status/slow_links.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

namespace rondo {
namespace {

constexpr double kSlow = 0.2;             // of the median of the other links
constexpr double kLossy = 0.02;           // packets sent again, of all
constexpr std::uint64_t kMinResent = 50;  // fewer prove nothing

struct Path {
  std::string from, to;   // hosts
  std::string own, peer;  // addresses
  auto operator<=>(const Path&) const = default;
};
using Paths = std::map<Path, LinkView>;

Paths paths_of(const JobView& view) {
  Paths paths;
  for (const ProcessView& process : view.processes)
    for (const LinkView& link : process.links) {
      LinkView& sum = paths[{process.host, link.host, link.own, link.address}];
      sum.sent_bytes += link.sent_bytes;
      sum.segments += link.segments;
      sum.resent_segments += link.resent_segments;
      sum.bytes_per_second += link.bytes_per_second;
      sum.newest_per_second += link.newest_per_second;
    }
  return paths;
}

double median_without(const Paths& paths, const Path& without) {
  std::vector<double> rates;
  for (const auto& [path, link] : paths)
    if (path != without && link.bytes_per_second > 0) rates.push_back(link.bytes_per_second);
  if (rates.empty()) return 0;
  const auto middle = rates.begin() + static_cast<std::ptrdiff_t>(rates.size() / 2);
  std::nth_element(rates.begin(), middle, rates.end());
  return *middle;
}

// Either rate alone may be low on a good network: because of gaps between messages, or because a
// connection has just begun.
bool is_slow(const LinkView& link, double usual) {
  const double best = std::max(link.bytes_per_second, link.newest_per_second);
  return link.bytes_per_second > 0 && link.newest_per_second > 0 && best < kSlow * usual;
}
double loss_of(std::uint64_t resent, std::uint64_t segments) {
  return segments == 0 ? 0 : static_cast<double>(resent) / static_cast<double>(segments);
}
bool is_lossy(const LinkView& link) {
  return link.resent_segments >= kMinResent &&
         loss_of(link.resent_segments, link.segments) > kLossy;
}

std::string text_of(const SlowLink& link, bool slow, const std::string& where) {
  std::string text = "the network " + where;
  if (slow)
    text += fmt::format(" is slow: {:.1f} MB/s, other links {:.1f} MB/s",
                        link.bytes_per_second / 1e6, link.usual_per_second / 1e6);
  if (link.resent_segments >= kMinResent && loss_of(link.resent_segments, link.segments) > kLossy)
    text += fmt::format("{} loses packets: {:.1f} % of {} were sent again", slow ? "; it" : "",
                        100 * loss_of(link.resent_segments, link.segments), link.segments);
  return text;
}

class Finder {
 public:
  explicit Finder(const JobView& view) : paths_(paths_of(view)) {
    for (const auto& [path, link] : paths_) {
      peers_from_[path.from].insert(path.to);
      peers_to_[path.to].insert(path.from);
      const double usual = median_without(paths_, path);
      if (is_slow(link, usual) || is_lossy(link)) bad_.emplace(path, usual);
    }
  }

  std::vector<SlowLink> run() {
    // A host to or from which all links are bad is named once.
    for (const auto& [host, peers] : peers_from_) name_host(host, peers, true);
    for (const auto& [host, peers] : peers_to_) name_host(host, peers, false);
    for (const auto& [path, usual] : bad_) {
      const std::string peer = path.peer.empty() ? "" : fmt::format(" ({})", path.peer);
      found_.push_back(
          sum_of({path}, path.from, path.to,
                 fmt::format("from {} ({}) to {}{}", path.from, path.own, path.to, peer)));
    }
    std::stable_sort(found_.begin(), found_.end(), [](const SlowLink& a, const SlowLink& b) {
      return (a.from.empty() || a.to.empty()) > (b.from.empty() || b.to.empty());
    });
    return std::move(found_);
  }

 private:
  void name_host(const std::string& host, const std::set<std::string>& peers, bool from) {
    std::vector<Path> all;
    std::set<std::string> bad_peers;
    for (const auto& [path, usual] : bad_) {
      if ((from ? path.from : path.to) != host) continue;
      all.push_back(path);
      bad_peers.insert(from ? path.to : path.from);
    }
    if (peers.size() < 2 || bad_peers != peers) return;
    const std::string where = from ? fmt::format("from {} to all other hosts", host)
                                   : fmt::format("from all other hosts to {}", host);
    found_.push_back(sum_of(all, from ? host : "", from ? "" : host, where));
    for (const Path& path : all) bad_.erase(path);
  }

  SlowLink sum_of(const std::vector<Path>& paths, std::string from, std::string to,
                  const std::string& where) const {
    SlowLink sum{.from = std::move(from), .to = std::move(to)};
    bool slow = false;
    for (const Path& path : paths) {
      const LinkView& link = paths_.at(path);
      const double usual = bad_.at(path);
      sum.segments += link.segments;
      sum.resent_segments += link.resent_segments;
      if (!is_slow(link, usual)) continue;
      if (!slow || link.bytes_per_second < sum.bytes_per_second) {
        sum.bytes_per_second = link.bytes_per_second;
        sum.usual_per_second = usual;
      }
      slow = true;
    }
    sum.text = text_of(sum, slow, where);
    return sum;
  }

  const Paths paths_;
  std::map<std::string, std::set<std::string>> peers_from_, peers_to_;
  std::map<Path, double> bad_;  // with the median of the others
  std::vector<SlowLink> found_;
};

}  // namespace

std::vector<SlowLink> slow_links(const JobView& view) { return Finder(view).run(); }

Json json_of(const SlowLink& link) {
  return {{"from", link.from},
          {"to", link.to},
          {"bytes_per_second", std::round(link.bytes_per_second)},
          {"usual_bytes_per_second", std::round(link.usual_per_second)},
          {"segments", link.segments},
          {"resent_segments", link.resent_segments},
          {"text", link.text}};
}

}  // namespace rondo
