#include "transport/verbs/ibverbs/adapter.h"

#include <fmt/format.h>

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
    const Owner& told = owners_[posted.slot];
    if (told.owner != nullptr) told.owner->completed(told.pair, posted, some[i]);
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

}  // namespace rondo::verbs
