// SPDX-License-Identifier: Apache-2.0
#include "collectives/status/link_meter.h"

#include <algorithm>

#include "base/seconds.h"

namespace rondo {
namespace {

constexpr std::uint64_t kMinLinkBytes = 64 << 10;  // less is no traffic of calls
constexpr double kMaxReaderShare = 0.1;            // of the busy time

// Whether a low rate proves that the network is slow: it is neither slow start nor a short message.
constexpr std::uint64_t kMinSentForProof = 4 << 20;
constexpr double kMinBusyForProof = 1;  // seconds with data under way
bool proves(std::uint64_t sent_bytes, double busy_seconds) {
  return sent_bytes >= kMinSentForProof || busy_seconds >= kMinBusyForProof;
}
constexpr std::int64_t kMinAge = 3'000'000'000;

status::TcpTraffic difference(const status::TcpTraffic& now, const status::TcpTraffic& before) {
  status::TcpTraffic made = now;
  made.sent_bytes -= std::min(before.sent_bytes, made.sent_bytes);
  made.segments -= std::min(before.segments, made.segments);
  made.resent_segments -= std::min(before.resent_segments, made.resent_segments);
  made.busy_seconds -= before.busy_seconds;
  made.reader_limited_seconds -= before.reader_limited_seconds;
  return made;
}

// Fewer than before: a communicator has ended meanwhile, and says nothing of the newest seconds.
LinkMeter::RailTraffic difference(const LinkMeter::RailTraffic& now,
                                  const LinkMeter::RailTraffic& before) {
  if (now.sent_bytes < before.sent_bytes || now.busy_ns < before.busy_ns) return {};
  return {now.sent_bytes - before.sent_bytes, now.received_bytes, now.busy_ns - before.busy_ns};
}

// While data was under way.
double busy_seconds(const LinkMeter::RailTraffic& recent) {
  return static_cast<double>(recent.busy_ns) * 1e-9;
}
double rate_of(const LinkMeter::RailTraffic& recent) {
  if (recent.sent_bytes < kMinLinkBytes || recent.busy_ns == 0) return 0;
  return static_cast<double>(recent.sent_bytes) / busy_seconds(recent);
}
double rate_of(const status::TcpTraffic& recent) {
  const bool reader_is_slow = recent.reader_limited_seconds > kMaxReaderShare * recent.busy_seconds;
  if (recent.sent_bytes < kMinLinkBytes || recent.busy_seconds <= 0 || reader_is_slow) return 0;
  return static_cast<double>(recent.sent_bytes) / recent.busy_seconds;
}

}  // namespace

std::string ip_text(const net::SocketAddress& address) {
  const std::string text = address.text();  // "10.0.0.1:4000", "[::1]:4000"
  const std::string ip = text.substr(0, text.rfind(':'));
  return ip.starts_with('[') ? ip.substr(1, ip.size() - 2) : ip;
}

std::vector<LinkView> LinkMeter::read(const std::map<std::string, std::string>& hosts,
                                      Rails rails) {
  Sample now{.at_ns = now_ns(), .traffic = {}, .rails = std::move(rails)};
  const auto is_old = [&](const Sample& one) {
    return one.at_ns != 0 && now.at_ns - one.at_ns >= kMinAge;
  };
  const Sample& base = is_old(newer_) ? newer_ : earlier_;
  std::map<Ends, LinkView> links;  // by addresses without ports
  for (const status::TcpTraffic& traffic : status::tcp_traffic()) {
    const std::string own = ip_text(traffic.own), peer = ip_text(traffic.peer);
    const auto host = hosts.find(peer);
    const bool carries = traffic.sent_bytes + traffic.received_bytes >= kMinLinkBytes;
    if (host == hosts.end() || own == peer || !carries) continue;
    const Ends ends{traffic.own.text(), traffic.peer.text()};
    const auto before = base.traffic.find(ends);
    const bool is_known = before != base.traffic.end();
    const status::TcpTraffic recent = is_known ? difference(traffic, before->second) : traffic;
    LinkView& link = links[{own, peer}];
    link.host = host->second;
    link.own = own;
    link.address = peer;
    link.sent_bytes += traffic.sent_bytes;
    link.received_bytes += traffic.received_bytes;
    link.segments += recent.segments;
    link.resent_segments += recent.resent_segments;
    link.rtt_seconds = std::max(link.rtt_seconds, traffic.rtt_seconds);
    const double rate = rate_of(recent);
    link.bytes_per_second += rate;
    if (rate > 0 && !recent.sends_seldom && proves(recent.sent_bytes, recent.busy_seconds))
      link.newest_per_second += recent.newest_per_second;
    now.traffic.emplace(ends, traffic);
  }
  for (const auto& [ends, rail] : now.rails) {
    const auto before = base.rails.find(ends);
    const bool is_known = before != base.rails.end();
    const RailTraffic recent = is_known ? difference(rail, before->second) : rail;
    LinkView& link = links[ends];
    link.own = ends.first;
    link.host = ends.second;
    link.sent_bytes = rail.sent_bytes;
    link.received_bytes = rail.received_bytes;
    link.bytes_per_second = rate_of(recent);
    if (proves(recent.sent_bytes, busy_seconds(recent)))
      link.newest_per_second = link.bytes_per_second;
  }
  if (newer_.at_ns == 0 || is_old(newer_)) earlier_ = std::exchange(newer_, std::move(now));
  std::vector<LinkView> all;
  for (auto& [ends, link] : links) all.push_back(std::move(link));
  return all;
}

}  // namespace rondo
