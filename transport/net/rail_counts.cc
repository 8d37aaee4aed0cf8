// SPDX-License-Identifier: Apache-2.0
#include "transport/net/rail_counts.h"

#include <cstring>

#include "base/atomics.h"

namespace rondo::net {
namespace {

void add_word(std::uint64_t& word, std::uint64_t now, std::uint64_t before) {
  if (now != before)
    HostAtomics::store_relaxed(word, HostAtomics::load_relaxed(word) + now - before);
}

void add(RailCounters& entry, const RailTraffic& now, const RailTraffic& before) {
  add_word(entry.sent_bytes, now.sent_bytes, before.sent_bytes);
  add_word(entry.received_bytes, now.received_bytes, before.received_bytes);
  add_word(entry.busy_ns, now.busy_ns, before.busy_ns);
  add_word(entry.parts, now.parts, before.parts);
}

// The second half of the entries begins with those of all other hosts.
std::size_t entry_of(std::span<RailCounters> counters, std::string_view port, int host) {
  const std::size_t last = counters.size() - 1, half = counters.size() / 2;
  const std::string_view name = port.substr(0, sizeof(RailCounters::port) - 1);
  const auto take = [&](std::size_t at, std::string_view as, int of) {
    std::memcpy(counters[at].port, as.data(), as.size());
    HostAtomics::store_release(counters[at].host, of);
    return at;
  };
  for (std::size_t i = 0; i < last; ++i) {
    const int of = i < half ? host : -1;
    if (counters[i].port[0] == 0) return take(i, name, of);
    if (counters[i].host == of && name == counters[i].port) return i;
  }
  return counters[last].port[0] == 0 ? take(last, "others", -1) : last;
}

}  // namespace

void add_rails(std::span<RailCounters> counters, CountedRails& counted, const Link& link,
               const RailTraffic& moved, const RailPeer& peer) {
  counted.moved.sent_bytes += moved.sent_bytes;
  counted.moved.received_bytes += moved.received_bytes;
  const std::span<const RailTraffic> own = link.rails();
  const auto rails = own.empty() ? std::span<const RailTraffic>(&counted.moved, 1) : own;
  counted.rails.resize(rails.size());
  counted.entries.resize(rails.size(), nullptr);
  for (std::size_t i = 0; i < rails.size(); ++i) {
    const RailTraffic& now = rails[i];
    RailCounters*& entry = counted.entries[i];
    if (entry == nullptr) {
      if (now.sent_bytes + now.received_bytes == 0) continue;
      if (link.state() == LinkState::kOpening) continue;  // it does not know its port yet
      const std::string_view port = own.empty() ? link.port() : now.port;
      entry = &counters[entry_of(counters, port.empty() ? peer.network : port, peer.host)];
    }
    add(*entry, now, counted.rails[i]);
    counted.rails[i] = {std::string(), now.sent_bytes, now.received_bytes, now.busy_ns, now.parts};
  }
}

}  // namespace rondo::net
