// SPDX-License-Identifier: Apache-2.0
#include "collectives/host/remote_puts.h"

#include <algorithm>
#include <cassert>
#include <cstring>

namespace rondo {
namespace {

constexpr std::size_t kStageBytes = 256 << 10;
constexpr std::size_t kPartBytes = 4 << 20;  // unstaged puts, in parts to show progress

Result<std::uint32_t> pack(const net::Network& network, net::MemoryKey key,
                           std::span<std::byte> into) {
  RONDO_TRY(const auto packed, network.pack_key(key));
  if (packed.size() > into.size())
    return fail(StatusCode::kInternalError, "a key of {} bytes, where {} have room", packed.size(),
                into.size());
  std::copy(packed.begin(), packed.end(), into.begin());
  return static_cast<std::uint32_t>(packed.size());
}

// The peer may wait for this rank at the same time. That is no deadlock: links and puts only need
// both processes to be alive.
WaitSite site_of(int peer, net::Request request) {
  return {.peer = -1, .step = request.number, .global_rank = peer, .of_network = true};
}

}  // namespace

RemotePuts::~RemotePuts() {
  if (!usable()) return;
  for (int window = 0; window < static_cast<int>(windows_.size()); ++window) close(window);
  take_back();
  if (words_key_ != 0) network().deregister_memory(words_key_);
  if (staging_key_ != 0) network().deregister_memory(staging_key_);
}

bool RemotePuts::usable() const {
  return remote_.links() != nullptr && remote_.links()->data_network().puts();
}

Status RemotePuts::add_words() {
  if (words_key_ != 0) return ok_status();
  words_.resize(static_cast<std::size_t>(members_.size) * kSignals);
  RONDO_TRY(words_key_, network().register_memory(
                            {.bytes = std::as_writable_bytes(std::span(words_)), .ordered = true}));
  return ok_status();
}

Result<WindowKeys> RemotePuts::register_side(const WindowSide& side) {
  WindowKeys keys;
  RONDO_CHECK_OK(add_words());
  RONDO_TRY(const net::MemoryKey key, network().register_memory(side.memory));
  Window& window = windows_.back();
  window.key = key;
  if (side.sent) window.sent = side.memory.bytes;
  if (!side.written) return keys;
  window.flush = side.memory.flush;
  keys.begin = side.begin;
  RONDO_TRY(keys.signals_bytes, pack(network(), words_key_, keys.signals));
  RONDO_TRY(keys.memory_bytes, pack(network(), key, keys.memory));
  return keys;
}

WindowKeys RemotePuts::offer(std::span<const WindowSide> ways, std::string* why_not) {
  Window& window = windows_.emplace_back();
  if (!usable()) return {};
  window.peers.resize(static_cast<std::size_t>(members_.size));
  window.begins.resize(window.peers.size());
  for (const WindowSide& side : ways) {
    auto keys = register_side(side);
    if (keys.ok()) return *keys;
    *why_not += (why_not->empty() ? "" : "; ") + keys.error().text;
    if (window.key != 0) network().deregister_memory(std::exchange(window.key, 0));
  }
  return {};
}

// The first rank whose link is not open yet; -1: none. Starts opening all links at once. After this
// end has opened a link, the peer can finish opening it without this rank.
Result<int> RemotePuts::first_unopened() const {
  int first = -1;
  for (int r = members_.size - 1; r >= 0; --r) {
    if (members_.local_of(r) >= 0) continue;
    RONDO_TRY(const net::Link* const link, remote_.links()->link(r, net::kPutLane));
    if (link == nullptr || link->state() != net::LinkState::kOpen) first = r;
  }
  return first;
}

Status RemotePuts::open(std::span<const WindowKeys> all) {
  if (!usable()) return ok_status();
  for (;;) {
    RONDO_TRY(const int unopened, first_unopened());
    if (unopened < 0) break;
    Status failed = ok_status();
    const auto is_open = [&] {
      auto next = first_unopened();
      if (!next.ok()) return failed = next.error(), true;
      return *next != unopened || faults_.is_raised();
    };
    const bool went_on = host_.waiter.until(is_open, site_of(unopened, {}));
    RONDO_CHECK_OK(failed);
    if (!went_on || faults_.is_raised()) return faults_.why_it_ended();
  }
  return take_keys(all);
}

Result<bool> RemotePuts::try_open(std::span<const WindowKeys> all) {
  if (!usable()) return true;
  RONDO_TRY(const int unopened, first_unopened());
  if (unopened >= 0) {
    RONDO_CHECK_OK(remote_.links()->error_of(unopened));
    return false;
  }
  RONDO_CHECK_OK(take_keys(all));
  return true;
}

Status RemotePuts::take_keys(std::span<const WindowKeys> all) {
  assert(all.size() == static_cast<std::size_t>(members_.size) && !windows_.empty());
  peers_.resize(static_cast<std::size_t>(members_.size));
  Window& window = windows_.back();
  for (std::size_t r = 0; r < peers_.size(); ++r) {
    const WindowKeys& theirs = all[r];
    if (members_.local_of(static_cast<int>(r)) >= 0 || theirs.memory_bytes == 0) continue;
    RONDO_TRY(net::Link* const link, remote_.links()->link(static_cast<int>(r), net::kPutLane));
    const auto packed = [](const auto& bytes, std::uint32_t count) {
      return std::span(bytes).first(std::min<std::size_t>(count, bytes.size()));
    };
    RONDO_TRY(window.peers[r], link->unpack_key(packed(theirs.memory, theirs.memory_bytes)));
    window.begins[r] = theirs.begin;
    Peer& peer = peers_[r];
    if (peer.link != nullptr) continue;
    RONDO_TRY(peer.words, link->unpack_key(packed(theirs.signals, theirs.signals_bytes)));
    peer.link = link;
  }
  return ok_status();
}

Status RemotePuts::lend(std::span<std::byte> memory) {
  if (!usable() || lent_key_ != 0) return ok_status();
  RONDO_TRY(lent_key_, network().register_memory({.bytes = memory}));
  lent_ = memory;
  return ok_status();
}

void RemotePuts::take_back() {
  if (lent_key_ != 0) network().deregister_memory(std::exchange(lent_key_, 0));
}

void RemotePuts::close(int number) {
  assert(number >= 0 && static_cast<std::size_t>(number) < windows_.size());
  Window& window = windows_[static_cast<std::size_t>(number)];
  for (std::size_t r = 0; r < window.peers.size(); ++r)
    if (window.peers[r] != 0 && peers_[r].link != nullptr)
      peers_[r].link->forget_key(window.peers[r]);
  window.peers.clear();
  window.flush = nullptr;
  if (window.key != 0) network().deregister_memory(std::exchange(window.key, 0));
}

bool RemotePuts::reaches(int number, int peer) const {
  assert(peer >= 0 && peer < members_.size);
  const auto p = static_cast<std::size_t>(peer);
  if (p >= peers_.size() || peers_[p].link == nullptr) return false;
  if (number < 0) return true;
  assert(static_cast<std::size_t>(number) < windows_.size());
  const Window& window = windows_[static_cast<std::size_t>(number)];
  return p < window.peers.size() && window.peers[p] != 0;
}

// Key of this rank's memory that holds the bytes; 0: none.
net::MemoryKey RemotePuts::key_with(std::span<const std::byte> bytes) const {
  const auto holds = [&](std::span<std::byte> all) {
    return bytes.data() >= all.data() && bytes.data() + bytes.size() <= all.data() + all.size();
  };
  if (lent_key_ != 0 && holds(lent_)) return lent_key_;
  for (const Window& window : windows_)
    if (window.key != 0 && holds(window.sent)) return window.key;
  return 0;
}

Status RemotePuts::add_stages() {
  if (staging_key_ != 0) return ok_status();
  staging_.resize(stages_.size() * kStageBytes);
  RONDO_TRY(staging_key_, network().register_memory({.bytes = staging_}));
  for (std::size_t i = 0; i < stages_.size(); ++i)
    stages_[i].bytes = std::span(staging_).subspan(i * kStageBytes, kStageBytes);
  return ok_status();
}

Result<RemotePuts::Stage*> RemotePuts::free_stage() {
  RONDO_CHECK_OK(add_stages());
  Stage& stage = stages_[next_stage_++ % stages_.size()];
  if (stage.peer < 0) return &stage;
  const auto is_free = [&] {
    return peers_[static_cast<std::size_t>(stage.peer)].link->test(stage.last).done ||
           faults_.is_raised();
  };
  if (!host_.waiter.until(is_free, site_of(stage.peer, stage.last)) || faults_.is_raised())
    return faults_.why_it_ended().error();
  return &stage;
}

Status RemotePuts::post(int to, const net::Put& put) {
  assert(to >= 0 && static_cast<std::size_t>(to) < peers_.size());
  assert(peers_[static_cast<std::size_t>(to)].link != nullptr && "reaches() was true");
  Peer& peer = peers_[static_cast<std::size_t>(to)];
  std::optional<net::Request> posted;
  const auto is_posted = [&] {
    posted = peer.link->iput(put);
    return posted.has_value() || faults_.is_raised();
  };
  if (!host_.waiter.until(is_posted, site_of(to, peer.last)) || !posted)
    return faults_.why_it_ended();
  peer.last = *posted;
  peer.record = call_.record;
  peer.pending = true;
  return ok_status();
}

Status RemotePuts::put(const Call& call) {
  assert(reaches(call.window, call.peer) && call.signal < kSignals);
  Peer& peer = peers_[static_cast<std::size_t>(call.peer)];
  const std::size_t bytes = call.window < 0 ? 0 : call.record.count * size_of(call.record.type);
  const std::span from(static_cast<const std::byte*>(call.send), bytes);
  const net::MemoryKey own = bytes == 0 ? 0 : key_with(from);
  net::Put put;
  std::uint64_t begin = 0;
  if (bytes != 0) {
    const Window& window = windows_[static_cast<std::size_t>(call.window)];
    put.to = window.peers[static_cast<std::size_t>(call.peer)];
    begin = window.begins[static_cast<std::size_t>(call.peer)] + call.offset;
  }
  for (std::size_t sent = 0; sent < bytes || bytes == 0;) {
    const auto part =
        from.subspan(sent, std::min(bytes - sent, own != 0 ? kPartBytes : kStageBytes));
    put.body = part;
    put.key = own;
    put.offset = begin + sent;
    Stage* stage = nullptr;
    if (own == 0 && bytes != 0) {
      RONDO_TRY(stage, free_stage());
      std::memcpy(stage->bytes.data(), part.data(), part.size());
      put.body = stage->bytes.first(part.size());
      put.key = staging_key_;
    }
    sent += part.size();
    if (sent == bytes && call.signal >= 0) {
      put.word_in = peer.words;
      put.word_offset = (static_cast<std::size_t>(members_.rank) * kSignals +
                         static_cast<std::size_t>(call.signal)) *
                        sizeof(std::uint64_t);
      put.word = ++peer.raised[static_cast<std::size_t>(call.signal)];
    }
    RONDO_CHECK_OK(post(call.peer, put));
    if (stage != nullptr) stage->peer = call.peer, stage->last = peer.last;
    if (bytes == 0) break;
  }
  return ok_status();
}

Status RemotePuts::flush(int to) {
  if (static_cast<std::size_t>(to) >= peers_.size()) return ok_status();
  Peer& peer = peers_[static_cast<std::size_t>(to)];
  if (!peer.pending) return ok_status();
  const auto is_done = [&] { return peer.link->test(peer.last).done || faults_.is_raised(); };
  const CallRecord current = std::exchange(call_.record, peer.record);
  const bool came = host_.waiter.until(is_done, site_of(to, peer.last));
  call_.record = current;
  if (!came || faults_.is_raised()) return faults_.why_it_ended();
  peer.pending = false;
  return ok_status();
}

Status RemotePuts::flush() {
  for (int r = 0; r < static_cast<int>(peers_.size()); ++r) RONDO_CHECK_OK(flush(r));
  return ok_status();
}

std::uint64_t RemotePuts::raised_by(int peer, int signal) const {
  assert(peer >= 0 && peer < members_.size && signal >= 0 && signal < kSignals);
  if (words_.empty()) return 0;
  return HostAtomics::load_acquire(
      words_[static_cast<std::size_t>(peer) * kSignals + static_cast<std::size_t>(signal)]);
}

Status RemotePuts::flush_windows() const {
  for (const Window& window : windows_)
    if (window.flush) RONDO_CHECK_OK(window.flush());
  return ok_status();
}

}  // namespace rondo
