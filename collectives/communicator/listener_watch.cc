// SPDX-License-Identifier: Apache-2.0
#include "collectives/communicator/listener_watch.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <chrono>

#include "transport/socket/interfaces.h"
#include "transport/socket/tcp.h"

namespace rondo {
namespace {

constexpr std::chrono::seconds kGraceOfRefusal{1};
constexpr std::chrono::milliseconds kPause{500};

}  // namespace

ListenerWatch::ListenerWatch(int rank, const bootstrap::UniqueId& address) : rank_(rank) {
  const auto contents = bootstrap::decode_id(address);
  if (!contents.ok()) return;
  for (const net::SocketAddress& to : net::on_links_here(contents->addresses))
    visits_.push_back({.to = to.with_port(contents->port)});
}

void ListenerWatch::step(Visit& visit, net::Clock::time_point now) {
  const auto end = [&](bool refused) {
    visit.socket.reset();
    visit.connected = false;
    visit.refused = refused;
    visit.next = now + kPause;
  };
  if (!visit.socket) {
    if (now < visit.next) return;
    auto started = net::start_connect(visit.to);
    if (!started.ok()) return end(false);
    visit.socket = std::move(*started);
  }
  pollfd entry{visit.socket.get(), static_cast<short>(visit.connected ? POLLIN : POLLOUT), 0};
  if (poll(&entry, 1, 0) <= 0) return;
  if (visit.connected) return end(false);  // it closed: its process may serve others first
  if (const int error = net::connect_outcome(visit.socket); error != 0)
    return end(error == ECONNREFUSED);
  visit.connected = true;
  visit.refused = false;
}

bool ListenerWatch::has_ended() {
  const auto now = net::Clock::now();
  for (Visit& visit : visits_) step(visit, now);
  const bool all_refuse = !visits_.empty() && std::all_of(visits_.begin(), visits_.end(),
                                                          [](const Visit& v) { return v.refused; });
  refused_since_ = all_refuse ? std::min(refused_since_, now) : net::Clock::time_point::max();
  return all_refuse && now - refused_since_ >= kGraceOfRefusal;
}

}  // namespace rondo
