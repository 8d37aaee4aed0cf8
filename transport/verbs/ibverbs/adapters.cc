// SPDX-License-Identifier: Apache-2.0
#include "transport/verbs/ibverbs/adapters.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/log.h"

namespace rondo::verbs {
namespace {

constexpr int kFirstCompletions = 1024;
constexpr std::size_t kMaxOwnMemory = 256u << 20;
constexpr std::uint32_t kMaxSlots = 1u << 24;

}  // namespace

std::uint64_t Posted::id() const {
  return std::uint64_t{slot} << 40 | static_cast<std::uint64_t>(kind) << 32 |
         std::uint64_t{writes} << 16 | value;
}

Posted Posted::of(std::uint64_t id) {
  return {static_cast<std::uint32_t>(id >> 40), static_cast<Kind>(id >> 32 & 0xff),
          static_cast<std::uint8_t>(id >> 16), static_cast<std::uint16_t>(id)};
}

Adapter::Adapter(std::unique_ptr<DeviceContext> device, double patience)
    : device_(std::move(device)), patience_(patience), pool_(*device_, kMaxOwnMemory) {}

Result<std::unique_ptr<Adapter>> Adapter::open(const Port& port, const Options& options,
                                               double patience) {
  RONDO_TRY(auto device, DeviceContext::open(port, options, kFirstCompletions));
  return std::unique_ptr<Adapter>(new Adapter(std::move(device), patience));
}

bool Adapter::poll() {
  if (!failure_.empty()) return false;
  ibv_wc some[32];
  const auto count = device_->poll(some);
  if (!count.ok()) {
    failure_ = count.error().text;
    return true;
  }
  for (int i = 0; i < *count; ++i) {
    const Posted posted = Posted::of(some[i].wr_id);
    if (posted.slot >= owners_.size()) continue;
    const Owner& notified = owners_[posted.slot];
    if (notified.owner != nullptr) notified.owner->completed(notified.pair, posted, some[i]);
  }
  return *count > 0;
}

bool Adapter::arm() {
  if (!failure_.empty()) return true;
  if (const auto armed = device_->arm(); !armed.ok()) failure_ = armed.error().text;
  return !poll() && failure_.empty();
}

void Adapter::look_at_device() {
  device_->read_events();
  if (!device_->port_is_down()) {
    down_since_.reset();
  } else if (!down_since_) {
    down_since_ = Clock::now();
  }
}

std::optional<std::string> Adapter::trouble(bool at_once) const {
  if (!failure_.empty()) return failure_;
  if (!down_since_) return std::nullopt;
  if (at_once)
    return fmt::format("the RDMA port {} is down: check its cable and `rdma link`",
                       device_->name());
  if (Clock::now() - *down_since_ < std::chrono::duration<double>(patience_)) return std::nullopt;
  return fmt::format(
      "the RDMA port {} has been down for {:g} seconds (RONDO_NET_TIMEOUT): check its cable and "
      "`rdma link`",
      device_->name(), patience_);
}

Result<std::uint32_t> Adapter::add_pair(PairOwner& owner, int pair) {
  if (owners_.size() == kMaxSlots)
    return fail(StatusCode::kSystemError,
                "{} has had {} queue pairs in this communicator, the maximum", device_->name(),
                kMaxSlots);
  RONDO_CHECK_OK(device_->reserve((pairs_ + 1) * (kSends + kReceives)));
  ++pairs_;
  owners_.push_back({&owner, pair});
  return static_cast<std::uint32_t>(owners_.size() - 1);
}

void Adapter::remove_pair(std::uint32_t slot) {
  owners_[slot].owner = nullptr;
  --pairs_;
}

Result<std::unique_ptr<ReadBack>> ReadBack::make(Adapter& adapter) {
  std::unique_ptr<ReadBack> made(new ReadBack(adapter));
  RONDO_TRY(made->into_, adapter.pool().take(1));
  RONDO_TRY(made->pair_,
            QueuePair::create(adapter.device(),
                              {.sends = static_cast<int>(kMax), .receives = 1, .is_read = true}));
  RONDO_TRY(made->slot_, adapter.add_pair(*made, 0));
  RONDO_CHECK_OK(made->pair_->connect(made->pair_->endpoint()));
  return made;
}

ReadBack::~ReadBack() {
  if (slot_) adapter_.remove_pair(*slot_);
  pair_.reset();
  if (!into_.bytes.empty()) adapter_.pool().give_back(into_);
}

std::optional<std::uint64_t> ReadBack::begin(std::uint64_t address, std::uint32_t key) {
  if (begun_ - over_ == kMax || !trouble_.empty()) return std::nullopt;
  const Status posted = pair_->post_read({.into = into_.bytes,
                                          .local_key = into_.local_key,
                                          .from = address,
                                          .remote_key = key,
                                          .id = Posted{*slot_, Posted::Kind::kControl}.id()});
  if (posted.ok()) return begun_++;
  trouble_ = posted.error().text;
  return std::nullopt;
}

void ReadBack::completed(int, const Posted&, const ibv_wc& completion) {
  if (completion.status == IBV_WC_SUCCESS) {
    ++over_;
  } else if (trouble_.empty()) {
    trouble_ = pair_->failure_of(completion).text;
  }
}

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
  std::uint64_t maximum = ~std::uint64_t{0};
  for (const auto& each : all_) maximum = std::min(maximum, each->device().max_bytes());
  return maximum;
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
