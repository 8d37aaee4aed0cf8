// SPDX-License-Identifier: Apache-2.0
#include "transport/net/remote_peer.h"

#include <algorithm>
#include <cassert>
#include <cstring>

#include "base/atomics.h"

namespace rondo::net {
namespace {

// Delay of error() while data lanes are live: one lane can end while another still carries the
// peer's last bytes. A peer that leaves closes all lanes; on a lossy network a data lane can end
// seconds after the others. After a broken lane, no more data is expected.
constexpr auto kClosedGrace = std::chrono::seconds(15);
constexpr auto kBrokenGrace = std::chrono::seconds(1);

}  // namespace

bool Line::progress() {
  if (!link) return false;
  bool moved = out && out->progress(*link, out_key);
  moved |= in && in->progress(*link, in_key);
  if (!link->progress()) return moved;
  if (out) out->progress(*link, out_key);
  if (in) in->progress(*link, in_key);
  return true;
}

Status Line::give_sender(Network& network, int peer, const SlotShape& shape) {
  if (out) return ok_status();
  RONDO_TRY(SlotSender made, SlotSender::make(peer, shape));
  RONDO_TRY(out_key, network.register_memory({made.memory()}));
  out = std::move(made);
  return ok_status();
}

Status Line::give_receiver(Network& network, int peer, const SlotShape& shape) {
  if (in) return ok_status();
  RONDO_TRY(SlotReceiver made, SlotReceiver::make(peer, shape));
  RONDO_TRY(in_key, network.register_memory({made.memory()}));
  in = std::move(made);
  return ok_status();
}

void Line::give_back(Network& network) {
  assert(link == nullptr && "its slots are in use as long as it lives");
  if (out) network.deregister_memory(out_key);
  if (in) network.deregister_memory(in_key);
  out.reset();
  in.reset();
}

Line* RemotePeer::data_line(int lane) const {
  for (const auto& line : lines)
    if (line->lane == lane && lane != kControlLane) return line.get();
  return nullptr;
}

Line* RemotePeer::control_line() const {
  for (const auto& line : lines)
    if (line->lane == kControlLane && line->live()) return line.get();
  return nullptr;
}

bool RemotePeer::has_control() const {
  return std::any_of(lines.begin(), lines.end(),
                     [](const auto& line) { return line->lane == kControlLane; });
}

bool RemotePeer::flushed() const {
  const bool control_flushed = std::all_of(lines.begin(), lines.end(), [](const auto& line) {
    return line->lane != kControlLane || line->flushed();
  });
  return unsent_control.empty() && control_flushed && data_flushed();
}

bool RemotePeer::data_flushed() const {
  return std::all_of(lines.begin(), lines.end(), [](const auto& line) {
    return line->lane == kControlLane || line->flushed();
  });
}

Status RemotePeer::error() const {
  if (!failure) return ok_status();
  const bool data_may_come = std::any_of(lines.begin(), lines.end(), [](const auto& line) {
    return line->lane != kControlLane && line->in && line->live();
  });
  const auto grace = closed ? kClosedGrace : kBrokenGrace;
  if (data_may_come && std::chrono::steady_clock::now() - failed_at < grace) return ok_status();
  return *failure;
}

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
  assert(counters.size() >= 2 && host >= 0);
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
