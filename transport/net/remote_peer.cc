// SPDX-License-Identifier: Apache-2.0
#include "transport/net/remote_peer.h"

#include <algorithm>

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

}  // namespace rondo::net
