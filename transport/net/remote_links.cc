// SPDX-License-Identifier: Apache-2.0
#include "transport/net/remote_links.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "base/atomics.h"
#include "base/log.h"
#include "transport/net/remote_peer.h"
#include "transport/net/sleeper.h"

namespace rondo {
namespace {

using net::Line;
using net::RemotePeer;
using Clock = std::chrono::steady_clock;

// One writer.
void add(std::uint64_t& counter, std::uint64_t more) {
  if (more > 0) HostAtomics::store_relaxed(counter, HostAtomics::load_relaxed(counter) + more);
}

constexpr net::SlotShape kControlSlots{RemoteLinks::kMaxControlBytes, 16};

}  // namespace

struct RemoteLinks::State {
  RemoteLinksOptions options;
  std::unique_ptr<net::Network> network, data;
  net::WakeGroup wakes;  // both networks
  std::vector<std::byte> blob, data_blob;
  std::vector<std::unique_ptr<RemotePeer>> peers;  // by rank; null: never used
  std::vector<RemotePeer*> connected;
  std::vector<std::vector<std::byte>> addresses, data_addresses;
  net::PollTurns turns;

  State() = default;
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State();
  net::Network& network_of(int lane) const {
    return data && lane != net::kControlLane ? *data : *network;
  }
  Result<RemotePeer*> peer(int rank);
  Result<Line*> line(RemotePeer& peer, int lane);
  Status connect(RemotePeer& peer, Line& line);
  Status open_control(RemotePeer& peer);
  Result<Line*> data_line(int rank, int lane);
  bool accept(net::Network& from);
  void adopt(std::unique_ptr<net::Link> link, const net::Network& from);
  bool poll() const;
  Status give_control_slots(RemotePeer& peer, Line& line);
  bool advance();
  bool advance(RemotePeer& peer);
  void count(const RemotePeer& peer, Line& line) const;
  void deliver_control(RemotePeer& peer, Line& line);
  bool offer_control(Line& line, std::span<const std::byte> message);
  void note(RemotePeer& peer, const Error& error, bool closed = false);
  Error waiting_in_vain(const RemotePeer& peer, const Error& why) const;
};

RemoteLinks::State::~State() {
  for (auto& peer : peers)
    if (peer)
      for (auto& line : peer->lines) line->link.reset();
  for (auto& peer : peers)
    if (peer)
      for (auto& line : peer->lines) line->give_back(network_of(line->lane));
}

Result<RemotePeer*> RemoteLinks::State::peer(int rank) {
  if (rank < 0 || rank >= options.size || rank == options.rank)
    return fail(StatusCode::kInvalidArgument,
                "rank {} has no links to rank {} in a communicator of {}", options.rank, rank,
                options.size);
  auto& peer = peers[rank];
  if (!peer) {
    peer = std::make_unique<RemotePeer>();
    peer->rank = rank;
    connected.push_back(peer.get());
  }
  return peer.get();
}

Status RemoteLinks::State::connect(RemotePeer& peer, Line& line) {
  const auto rank = static_cast<std::size_t>(peer.rank);
  const bool by_data = &network_of(line.lane) == data.get();
  const auto& addresses = by_data ? data_addresses : this->addresses;
  if (rank >= addresses.size() || addresses[rank].empty())
    return fail(StatusCode::kInternalError, "rank {} does not know where rank {} listens",
                options.rank, peer.rank);
  RONDO_TRY(line.link,
            network_of(line.lane).connect({options.rank, peer.rank, line.lane}, addresses[rank]));
  return ok_status();
}

Status RemoteLinks::State::give_control_slots(RemotePeer& peer, Line& line) {
  RONDO_CHECK_OK(line.give_sender(*network, peer.rank, kControlSlots));
  return line.give_receiver(*network, peer.rank, kControlSlots);
}

Status RemoteLinks::State::open_control(RemotePeer& peer) {
  auto line = std::make_unique<Line>();
  line->lane = net::kControlLane;
  RONDO_CHECK_OK(connect(peer, *line));
  RONDO_CHECK_OK(give_control_slots(peer, *line));
  peer.lines.push_back(std::move(line));
  return ok_status();
}

Result<Line*> RemoteLinks::State::data_line(int rank, int lane) {
  if (lane < net::kCollectiveLane || lane >= net::kLanes || lane == net::kControlLane)
    return fail(StatusCode::kInvalidArgument, "lane {} carries no slots", lane);
  RONDO_TRY(RemotePeer * peer, this->peer(rank));
  Line* line = peer->data_line(lane);
  if (line == nullptr) {
    auto made = std::make_unique<Line>();
    made->lane = lane;
    if (options.rank < rank) RONDO_CHECK_OK(connect(*peer, *made));
    line = peer->lines.emplace_back(std::move(made)).get();
  }
  if (options.rank > rank && !peer->has_control()) RONDO_CHECK_OK(open_control(*peer));
  return line;
}

void RemoteLinks::State::adopt(std::unique_ptr<net::Link> link, const net::Network& from) {
  const net::LinkName name = link->name();
  const bool control = name.lane == net::kControlLane;
  auto known = peer(name.from);
  if (!known.ok() || name.to != options.rank || (!control && name.from > options.rank) ||
      &network_of(name.lane) != &from) {
    RONDO_WARN("rank {} refused lane {} from rank {} to rank {}", options.rank, name.lane,
               name.from, name.to);
    return;
  }
  RemotePeer& peer = *known.value();
  Line* line = peer.data_line(name.lane);
  if (line != nullptr && line->link) return;  // a duplicate
  if (line == nullptr) {
    auto made = std::make_unique<Line>();
    made->lane = name.lane;
    if (control) {
      if (auto given = give_control_slots(peer, *made); !given.ok())
        return note(peer, given.error());
    }
    line = peer.lines.emplace_back(std::move(made)).get();
  }
  line->link = std::move(link);
}

void RemoteLinks::State::note(RemotePeer& peer, const Error& error, bool closed) {
  if (peer.failure) return;
  if (options.counters != nullptr) add(options.counters->lost_peers, 1);
  peer.failure = error;
  peer.failed_at = Clock::now();
  peer.closed = closed;
  RONDO_INFO(kNet, "rank {}: {}", options.rank, error.text);
}

Error RemoteLinks::State::waiting_in_vain(const RemotePeer& peer, const Error& why) const {
  return fail(why.code, "rank {} could not let rank {} connect: {}", options.rank, peer.rank,
              why.text);
}

bool RemoteLinks::State::offer_control(Line& line, std::span<const std::byte> message) {
  assert(line.out && message.size() <= kMaxControlBytes);
  Connection& c = line.out->connection();
  const std::uint64_t tail = *c.tail;
  if (tail - HostAtomics::load_acquire(*c.head) == c.slot_count) return false;
  std::copy(message.begin(), message.end(), c.buffer + tail % c.slot_count * c.slot_bytes);
  c.used[tail % c.slot_count] = message.size();
  c.records[tail % c.slot_count] = {};
  HostAtomics::store_release(*c.tail, tail + 1);
  return true;
}

void RemoteLinks::State::deliver_control(RemotePeer& peer, Line& line) {
  Connection& c = line.in->connection();
  for (std::uint64_t head = *c.head; head != HostAtomics::load_acquire(*c.tail); ++head) {
    const std::uint64_t slot = head % c.slot_count;
    if (options.on_control)
      options.on_control(peer.rank, {c.buffer + slot * c.slot_bytes, c.used[slot] & 0xffffffff});
    HostAtomics::store_release(*c.head, head + 1);
  }
}

void RemoteLinks::State::count(const RemotePeer& peer, Line& line) const {
  if (options.counters == nullptr) return;
  const std::uint64_t out = line.out ? line.out->bytes() : 0, in = line.in ? line.in->bytes() : 0;
  const net::RailTraffic moved{.sent_bytes = out - std::exchange(line.counted_out, out),
                               .received_bytes = in - std::exchange(line.counted_in, in)};
  add(options.counters->sent_bytes, moved.sent_bytes);
  add(options.counters->received_bytes, moved.received_bytes);
  if (!options.rails.empty())
    add_rails(options.rails, line.counted_rails, *line.link, moved,
              {options.host_of[static_cast<std::size_t>(peer.rank)], network_of(line.lane).name()});
  const net::LinkLosses losses = line.link->losses();
  if (losses.rails == line.counted.rails && losses.parts == line.counted.parts) return;
  add(options.counters->lost_rails, losses.rails - line.counted.rails);
  add(options.counters->resent_parts, losses.parts - line.counted.parts);
  line.counted = losses;
}

bool RemoteLinks::State::advance(RemotePeer& peer) {
  bool moved = false;
  for (std::size_t i = 0; i < peer.lines.size(); ++i) {  // handlers may add lines
    Line& line = *peer.lines[i];
    if (line.progress()) {
      moved = true;
      count(peer, line);
    }
    if (line.lane == net::kControlLane) deliver_control(peer, line);
    if (!line.link && !peer.failure)
      if (const Status able = network_of(line.lane).accepting(); !able.ok())
        note(peer, waiting_in_vain(peer, able.error()));
    if (line.ended() && !peer.failure)
      note(peer, line.link->error(), line.link->state() == net::LinkState::kClosed);
  }
  if (peer.unsent_control.empty()) return moved;
  Line* line = peer.control_line();
  while (line != nullptr && !peer.unsent_control.empty() &&
         offer_control(*line, peer.unsent_control.front())) {
    peer.unsent_control.pop_front();
    moved = true;
  }
  if (line == nullptr && peer.failure) peer.unsent_control.clear();
  return moved;
}

bool RemoteLinks::State::advance() {
  bool moved = false;
  for (std::size_t i = 0; i < connected.size(); ++i) moved |= advance(*connected[i]);
  moved |= accept(*network);
  if (data) moved |= accept(*data);
  return moved;
}

bool RemoteLinks::State::accept(net::Network& from) {
  bool accepted = false;
  while (auto link = from.accept()) {
    adopt(std::move(link), from);
    accepted = true;
  }
  return accepted;
}

bool RemoteLinks::State::poll() const {
  const bool may_move = network->poll();
  return (data && data->poll()) || may_move;
}

RemoteLinks::RemoteLinks(std::unique_ptr<State> state) : state_(std::move(state)) {}
RemoteLinks::~RemoteLinks() = default;

Result<std::unique_ptr<RemoteLinks>> RemoteLinks::open(RemoteLinksOptions options) {
  assert(options.network != nullptr && options.rank >= 0 && options.rank < options.size);
  auto state = std::make_unique<State>();
  state->network = std::move(options.network);
  state->data = std::move(options.data);
  RONDO_TRY(state->blob, state->network->listen());
  RONDO_CHECK_OK(state->wakes.add(*state->network));
  if (state->data) {
    RONDO_TRY(state->data_blob, state->data->listen());
    RONDO_CHECK_OK(state->wakes.add(*state->data));
  }
  state->peers.resize(static_cast<std::size_t>(options.size));
  state->options = std::move(options);
  return std::unique_ptr<RemoteLinks>(new RemoteLinks(std::move(state)));
}

const std::vector<std::byte>& RemoteLinks::address_blob() const { return state_->blob; }

const std::vector<std::byte>& RemoteLinks::data_address_blob() const { return state_->data_blob; }

void RemoteLinks::set_peers(std::vector<std::vector<std::byte>> blobs,
                            std::vector<std::vector<std::byte>> data_blobs) {
  assert(blobs.size() == static_cast<std::size_t>(state_->options.size));
  state_->addresses = std::move(blobs);
  state_->data_addresses = std::move(data_blobs);
}

void RemoteLinks::set_control_handler(
    std::function<void(int, std::span<const std::byte>)> handler) {
  state_->options.on_control = std::move(handler);
}

Result<Connection*> RemoteLinks::sender(int peer, int lane) {
  RONDO_TRY(Line * line, state_->data_line(peer, lane));
  RONDO_CHECK_OK(line->give_sender(state_->network_of(lane), peer, state_->options.slots));
  return &line->out->connection();
}

Result<Connection*> RemoteLinks::receiver(int peer, int lane) {
  RONDO_TRY(Line * line, state_->data_line(peer, lane));
  RONDO_CHECK_OK(line->give_receiver(state_->network_of(lane), peer, state_->options.slots));
  return &line->in->connection();
}

Result<net::Link*> RemoteLinks::link(int peer, int lane) {
  RONDO_TRY(const Line* const line, state_->data_line(peer, lane));
  return line->link.get();
}

net::Network& RemoteLinks::data_network() const { return state_->network_of(net::kCollectiveLane); }

bool RemoteLinks::progress() {
  const bool moved = state_->advance();
  if (!state_->turns.due(moved)) return moved;
  return (state_->poll() && state_->advance()) || moved;
}

Status RemoteLinks::error_of(int peer) const {
  if (peer < 0 || peer >= state_->options.size || !state_->peers[peer]) return ok_status();
  return state_->peers[peer]->error();
}

bool RemoteLinks::reached(int peer) const {
  if (peer < 0 || peer >= state_->options.size || !state_->peers[peer]) return false;
  const auto& lines = state_->peers[peer]->lines;
  return !lines.empty() && std::all_of(lines.begin(), lines.end(), [](const auto& line) {
    return line->link && line->link->state() == net::LinkState::kOpen;
  });
}

Status RemoteLinks::send_control(int rank, std::span<const std::byte> message) {
  if (message.size() > kMaxControlBytes)
    return fail(StatusCode::kInvalidArgument, "a control message of {} bytes; at most {} fit",
                message.size(), kMaxControlBytes);
  RONDO_TRY(RemotePeer * peer, state_->peer(rank));
  if (!peer->has_control()) RONDO_CHECK_OK(state_->open_control(*peer));
  Line* line = peer->control_line();
  if (line == nullptr) return peer->failure ? Status(*peer->failure) : ok_status();
  if (!peer->unsent_control.empty() || !state_->offer_control(*line, message))
    peer->unsent_control.emplace_back(message.begin(), message.end());
  return ok_status();
}

int RemoteLinks::unflushed_peer() const {
  for (const RemotePeer* peer : state_->connected)
    if (!peer->flushed()) return peer->rank;
  return -1;
}

int RemoteLinks::unflushed_data_peer() const {
  for (const RemotePeer* peer : state_->connected)
    if (!peer->data_flushed()) return peer->rank;
  return -1;
}

bool RemoteLinks::data_flushed(int peer) const {
  assert(peer >= 0 && peer < state_->options.size);
  return state_->peers[peer] == nullptr || state_->peers[peer]->data_flushed();
}

RemoteLinks::Traffic RemoteLinks::traffic(int peer) const {
  Traffic traffic;
  if (peer < 0 || peer >= state_->options.size || !state_->peers[peer]) return traffic;
  for (const auto& line : state_->peers[peer]->lines) {
    if (line->lane == net::kControlLane) continue;
    LaneTraffic& lane = traffic[line->lane];
    if (line->out) lane.sent = HostAtomics::load_acquire(*line->out->connection().tail);
    if (!line->in) continue;
    const Connection& in = line->in->connection();
    lane.received = HostAtomics::load_acquire(*in.tail);
    lane.full = lane.received - HostAtomics::load_relaxed(*in.head) >= in.slot_count;
  }
  return traffic;
}

Status RemoteLinks::flush(Clock::time_point deadline) {
  constexpr std::chrono::milliseconds kNap{100};
  for (;;) {
    const bool moved = progress();
    const int behind = unflushed_peer();
    if (behind < 0) return ok_status();
    RONDO_CHECK_OK(error_of(behind));
    if (moved) continue;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
    if (left.count() <= 0)
      return fail(StatusCode::kTimeout, "rank {} did not take the last bytes for it in time",
                  behind);
    if (net::Sleeper sleeper; sleeper.add(*this)) sleeper.sleep(std::min(left, kNap));
  }
}

bool RemoteLinks::arm() { return state_->wakes.arm(); }
int RemoteLinks::poll_fd() const { return state_->wakes.poll_fd(); }

void RemoteLinks::close() {
  state_->connected.clear();
  for (auto& peer : state_->peers) {
    if (!peer) continue;
    for (auto& line : peer->lines)
      if (line->link) line->link->close();
  }
}

}  // namespace rondo
