#include "transport/proxy/net_proxy.h"

#include <algorithm>
#include <optional>

#include "base/atomics.h"
#include "base/log.h"

namespace rondo::gpu {

net::LinkName net_proxy_link(int from, int to, int lane, int channel) {
  constexpr int kLanesOfATree = 2;
  return {from, to, net::kLanes + channel * kLanesOfATree + lane};
}

struct NetProxy::Line {
  net::LinkName name;
  std::unique_ptr<net::Link> link;
  std::optional<net::SlotSender> out;
  std::optional<net::SlotReceiver> in;
  net::MemoryKey key = 0;

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
  for (Line& line : lines_) {
    line.link.reset();
    network_->deregister_memory(line.key);
  }
}

Result<std::unique_ptr<NetProxy>> NetProxy::open(std::unique_ptr<net::Network> network,
                                                 const std::vector<NetProxyLine>& lines) {
  std::unique_ptr<NetProxy> made(new NetProxy(std::move(network)));
  for (const NetProxyLine& one : lines) {
    Line& line = made->lines_.emplace_back();
    line.name = one.name;
    if (one.sends) {
      line.out = net::SlotSender::over(one.end);
    } else {
      line.in = net::SlotReceiver::over(one.end);
    }
    const std::span<std::byte> slots = line.out ? line.out->memory() : line.in->memory();
    RONDO_TRY(line.key, made->network_->register_memory({slots}));
  }
  RONDO_TRY(made->address_, made->network_->listen());
  return made;
}

Done NetProxy::connect(std::span<const std::vector<std::byte>> addresses) {
  for (Line& line : lines_)
    if (line.out) {
      RONDO_TRY(line.link,
                network_->connect(line.name, addresses[static_cast<std::size_t>(line.name.to)]));
    }
  return done();
}

void NetProxy::adopt(std::unique_ptr<net::Link> link) {
  const net::LinkName name = link->name();
  for (Line& line : lines_) {
    if (!line.in || line.link || !(line.name == name)) continue;
    line.link = std::move(link);
    return;
  }
  RONDO_WARN("rank {} refused lane {} from rank {}: it has no such connection, or has it already",
             name.to, name.lane, name.from);
}

bool NetProxy::progress() {
  const auto all = [this] {
    bool moved = false;
    for (Line& line : lines_) moved |= line.progress();
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

const Error* NetProxy::first_end(int* peer) const {
  for (const Line& line : lines_) {
    if (!line.link || !net::is_over(line.link->state())) continue;
    *peer = line.peer();
    return &line.link->error();
  }
  return nullptr;
}

void NetProxy::close() {
  for (Line& line : lines_)
    if (line.link) line.link->close();
}

}  // namespace rondo::gpu
