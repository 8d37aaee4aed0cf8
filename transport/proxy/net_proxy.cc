// SPDX-License-Identifier: Apache-2.0
#include "transport/proxy/net_proxy.h"

#include <algorithm>
#include <cassert>
#include <optional>

#include "base/atomics.h"
#include "base/log.h"

namespace rondo::gpu {

namespace {

// Lanes from net::kLanes on: connections by channel and lane, then messages by channel.
constexpr int kLanesOfATree = 2;
constexpr int kFirstMessageLane = net::kLanes + kMaxProxyChannels * kLanesOfATree;
constexpr int kLastMessageLane = kFirstMessageLane + kMaxProxyMessageChannels - 1;
static_assert(kLastMessageLane < net::kMaxLanes);

bool is_message(const net::LinkName& name) {
  return name.lane >= kFirstMessageLane && name.lane <= kLastMessageLane;
}

}  // namespace

net::LinkName net_proxy_link(int from, int to, int lane, int channel) {
  assert(lane >= 0 && lane < kLanesOfATree && channel >= 0 && channel < kMaxProxyChannels);
  return {from, to, net::kLanes + channel * kLanesOfATree + lane};
}

net::LinkName net_proxy_message_link(int from, int to, int channel) {
  assert(channel >= 0 && channel < kMaxProxyMessageChannels);
  return {from, to, kFirstMessageLane + channel};
}

struct NetProxy::Line {
  net::LinkName name;
  std::unique_ptr<net::Link> link;
  std::optional<net::SlotSender> out;
  std::optional<net::SlotReceiver> in;
  net::MemoryKey key = 0;
  bool own_key = false;  // false: the key of a block

  Connection& end() { return out ? out->connection() : in->connection(); }
  const Connection& end() const { return const_cast<Line*>(this)->end(); }
  int peer() const { return out ? name.to : name.from; }
  bool step() { return out ? out->progress(*link, key) : in->progress(*link, key); }
  bool progress() {
    if (!link) return false;
    const bool moved = step();
    if (!link->progress()) return moved;
    step();
    return true;
  }
};

NetProxy::NetProxy(std::unique_ptr<net::Network> network) : network_(std::move(network)) {}

NetProxy::~NetProxy() {
  early_.clear();
  for (Line& line : lines_) {
    line.link.reset();
    if (line.own_key) network_->deregister_memory(line.key);
  }
  for (const auto& [block, key] : blocks_) network_->deregister_memory(key);
}

Result<std::unique_ptr<NetProxy>> NetProxy::open(std::unique_ptr<net::Network> network,
                                                 const std::vector<NetProxyLine>& lines) {
  assert(network != nullptr);
  std::unique_ptr<NetProxy> made(new NetProxy(std::move(network)));
  RONDO_CHECK_OK(made->add_first(lines));
  RONDO_TRY(made->address_, made->network_->listen());
  return made;
}

Status NetProxy::take(const DirectBlock& block) {
  assert(block != nullptr);
  if (blocks_.contains(block)) return ok_status();
  RONDO_TRY(blocks_[block], network_->register_memory(block->memory()));
  return ok_status();
}

Status NetProxy::add_first(const std::vector<NetProxyLine>& lines) {
  for (const NetProxyLine& one : lines) RONDO_CHECK_OK(open(one));
  return ok_status();
}

Status NetProxy::open(const NetProxyLine& one) {
  assert(one.name.lane >= net::kLanes && one.name.lane <= kLastMessageLane);
  Line& line = lines_.emplace_back();
  line.name = one.name;
  if (one.sends) {
    line.out = net::SlotSender::over(one.end);
  } else {
    line.in = net::SlotReceiver::over(one.end);
  }
  if (one.block) {
    RONDO_CHECK_OK(take(one.block));
    line.key = blocks_.at(one.block);
    return ok_status();
  }
  const std::span<std::byte> slots = line.out ? line.out->memory() : line.in->memory();
  RONDO_TRY(line.key, network_->register_memory({slots}));
  line.own_key = true;
  return ok_status();
}

Status NetProxy::connect(std::span<const std::vector<std::byte>> addresses) {
  addresses_.assign(addresses.begin(), addresses.end());
  for (Line& line : lines_) RONDO_CHECK_OK(connect(line));
  return ok_status();
}

Status NetProxy::connect(Line& line) {
  if (!line.out) return ok_status();
  assert(!line.link && static_cast<std::size_t>(line.name.to) < addresses_.size());
  RONDO_TRY(line.link,
            network_->connect(line.name, addresses_[static_cast<std::size_t>(line.name.to)]));
  return ok_status();
}

void NetProxy::add(const NetProxyLine& line) {
  const std::lock_guard lock(mutex_);
  added_.push_back(line);
  any_added_.store(true, std::memory_order_release);
}

Status NetProxy::open_added() {
  if (!any_added_.load(std::memory_order_acquire)) return ok_status();
  std::vector<NetProxyLine> added;
  {
    const std::lock_guard lock(mutex_);
    added.swap(added_);
    any_added_.store(false, std::memory_order_relaxed);
  }
  for (const NetProxyLine& one : added) {
    RONDO_CHECK_OK(open(one));
    RONDO_CHECK_OK(connect(lines_.back()));
    const auto early = std::find_if(early_.begin(), early_.end(),
                                    [&](const auto& link) { return link->name() == one.name; });
    if (one.sends || early == early_.end()) continue;
    lines_.back().link = std::move(*early);
    early_.erase(early);
  }
  return ok_status();
}

// The sender opens the link at its first message, perhaps before this rank has added the line.
void NetProxy::adopt(std::unique_ptr<net::Link> link) {
  assert(link != nullptr);
  const net::LinkName name = link->name();
  for (Line& line : lines_) {
    if (!line.in || line.link || !(line.name == name)) continue;
    line.link = std::move(link);
    return;
  }
  const auto is_same = [&](const net::LinkName& other) { return other == name; };
  const bool known = std::any_of(lines_.begin(), lines_.end(),
                                 [&](const Line& line) { return is_same(line.name); }) ||
                     std::any_of(early_.begin(), early_.end(),
                                 [&](const auto& other) { return is_same(other->name()); });
  if (is_message(name) && !known) return early_.push_back(std::move(link));
  RONDO_WARN("rank {} refused lane {} from rank {}: it has no such connection, or has it already",
             name.to, name.lane, name.from);
}

bool NetProxy::progress() {
  const auto all = [this] {
    bool moved = false;
    for (Line& line : lines_) moved |= line.progress();
    for (auto& link : early_) moved |= link->progress();
    return moved;
  };
  const bool moved = all();
  if (!turns_.due(moved)) return moved;
  if (!network_->poll()) return moved;
  while (auto link = network_->accept()) adopt(std::move(link));
  return all() || moved;
}

bool NetProxy::is_open() const {
  return std::all_of(lines_.begin(), lines_.end(), [](const Line& line) {
    return line.link && line.link->state() == net::LinkState::kOpen;
  });
}

bool NetProxy::flushed() const {
  return std::all_of(lines_.begin(), lines_.end(), [](const Line& line) {
    return !line.out || line.out->flushed() || !line.link || net::is_over(line.link->state());
  });
}

std::uint64_t NetProxy::moved() const {
  std::uint64_t slots = 0;
  for (const Line& line : lines_)
    slots += HostAtomics::load_acquire(line.out ? *line.end().head : *line.end().tail);
  return slots;
}

std::uint64_t NetProxy::sent() const {
  std::uint64_t bytes = 0;
  for (const Line& line : lines_) bytes += line.out ? line.out->bytes() : 0;
  return bytes;
}

const Error* NetProxy::first_end(int* peer) const {
  for (const Line& line : lines_) {
    if (!line.link || !net::is_over(line.link->state())) continue;
    *peer = line.peer();
    return &line.link->error();
  }
  return nullptr;
}

std::vector<int> NetProxy::cut_off() const {
  std::vector<int> found;
  for (const Line& line : lines_) {
    if (!is_message(line.name) || !line.out || !line.link) continue;
    if (!net::is_over(line.link->state()) || line.out->flushed()) continue;
    if (found.empty() || found.back() != line.peer()) found.push_back(line.peer());
  }
  return found;
}

void NetProxy::close() {
  for (Line& line : lines_)
    if (line.link) line.link->close();
  early_.clear();
}

}  // namespace rondo::gpu
