#include "transport/verbs/ibverbs/adapters.h"

#include <algorithm>

#include "base/log.h"

namespace rondo::verbs {
namespace {

// A port is used only if this much memory can be registered; links can need more later.
constexpr std::size_t kTrial = 2u << 20;

Result<std::unique_ptr<Adapter>> open_one(const Port& port, const Options& options,
                                          double patience) {
  RONDO_TRY(auto adapter, Adapter::open(port, options, patience));
  RONDO_TRY(const Slice trial, adapter->pool().take(kTrial));
  adapter->pool().give_back(trial);
  return adapter;
}

}  // namespace

Result<std::unique_ptr<Adapters>> Adapters::open(const std::vector<Port>& ports,
                                                 const Options& options, double patience) {
  std::unique_ptr<Adapters> made(new Adapters);
  std::optional<Error> first;
  for (const Port& port : ports) {
    auto adapter = open_one(port, options, patience);
    if (adapter.ok()) {
      made->all_.push_back(std::move(adapter).value());
    } else {
      RONDO_INFO(kNet, "the RDMA port {} is not used: {}", port.name(), adapter.error().text);
      if (!first) first = adapter.error();
    }
  }
  if (made->all_.empty()) return *first;
  return made;
}

std::vector<Port> Adapters::ports() const {
  std::vector<Port> ports;
  for (const auto& each : all_) ports.push_back(each->device().port());
  return ports;
}

std::uint64_t Adapters::max_bytes() const {
  std::uint64_t most = ~std::uint64_t{0};
  for (const auto& each : all_) most = std::min(most, each->device().max_bytes());
  return most;
}

bool Adapters::poll() {
  bool moved = false;
  for (const auto& each : all_) moved |= each->poll();
  return moved;
}

bool Adapters::arm() {
  bool armed = true;
  for (const auto& each : all_) armed &= each->arm();
  return armed;
}

Result<net::MemoryKey> Adapters::register_memory(const net::Memory& wanted) {
  if (wanted.read_back) RONDO_CHECK_OK(add_read_back());
  Memory memory{wanted.bytes, wanted.flush, wanted.read_back, {}, {}};
  for (std::size_t i = 0; i < all_.size() && !wanted.bytes.empty(); ++i) {
    RONDO_TRY(Region region, Region::of(all_[i]->device(), wanted));
    memory.keys[i] = {region.local_key(), region.remote_key()};
    memory.regions.push_back(std::move(region));
  }
  memory_.emplace(++last_key_, std::move(memory));
  return last_key_;
}

Result<PackedKey> Adapters::pack_key(net::MemoryKey key) const {
  const auto it = memory_.find(key);
  if (it == memory_.end() || it->second.bytes.empty())
    return fail(StatusCode::kInternalError,
                "key {} does not belong to memory that peers may put into", key);
  PackedKey packed{
      reinterpret_cast<std::uintptr_t>(it->second.bytes.data()), it->second.bytes.size(), {}};
  for (std::size_t i = 0; i < all_.size(); ++i) packed.keys[i] = it->second.keys[i].remote;
  return packed;
}

bool Adapters::needs_flush(net::MemoryKey key) const {
  const auto it = memory_.find(key);
  return it != memory_.end() && (it->second.flush || it->second.read_back);
}

Status Adapters::add_read_back() {
  while (reads_.size() < all_.size()) {
    RONDO_TRY(auto reads, ReadBack::make(*all_[reads_.size()]));
    reads_.push_back(std::move(reads));
  }
  return ok_status();
}

Result<std::optional<Adapters::Flush>> Adapters::begin_flush(net::MemoryKey key,
                                                             const std::byte* at) const {
  Flush flush;
  const auto it = memory_.find(key);
  if (it == memory_.end()) return std::optional(flush);
  if (it->second.flush) RONDO_CHECK_OK(it->second.flush());
  for (std::size_t i = 0; it->second.read_back && i < reads_.size(); ++i) {
    flush.reads[i] =
        reads_[i]->begin(reinterpret_cast<std::uintptr_t>(at), it->second.keys[i].remote);
    if (!reads_[i]->trouble().empty())
      return fail(StatusCode::kRemoteError, "{}", reads_[i]->trouble());
    if (!flush.reads[i]) return std::optional<Flush>();
  }
  return std::optional(flush);
}

Result<bool> Adapters::is_over(const Flush& flush) const {
  for (std::size_t i = 0; i < reads_.size(); ++i) {
    if (!flush.reads[i]) continue;
    if (!reads_[i]->trouble().empty())
      return fail(StatusCode::kRemoteError, "{}", reads_[i]->trouble());
    if (!reads_[i]->is_over(*flush.reads[i])) return false;
  }
  return true;
}

const Adapters::Keys* Adapters::find(net::MemoryKey key, std::span<const std::byte> bytes) const {
  const auto it = memory_.find(key);
  if (it == memory_.end()) return nullptr;
  const std::span<std::byte> all = it->second.bytes;
  const bool within =
      bytes.data() >= all.data() && bytes.size() <= all.size() &&
      static_cast<std::size_t>(bytes.data() - all.data()) <= all.size() - bytes.size();
  return within ? &it->second.keys : nullptr;
}

}  // namespace rondo::verbs
