// Calls over connections: one launch on every device of the team.
#include <fmt/core.h>

#include <algorithm>

#include "base/env.h"
#include "collectives/gpu/connected_launches.h"
#include "collectives/gpu/device.h"
#include "collectives/gpu/device_team.h"
#include "collectives/gpu/streams.h"

namespace rondo::gpu {
namespace {

// Channels that connections are made for, unless the program asks for more or fewer CTAs.
constexpr int kChannels = 16;
constexpr int kSlots = 4;
constexpr std::uint64_t kSlotBytes = 64 << 10;
constexpr std::uint64_t kSmallestSlot = 128;

}  // namespace

Done DeviceTeam::open_connections() {
  facts_.ranks = static_cast<int>(devices_.size());
  facts_.devices = static_cast<int>(distinct_.size());
  facts_.reproducible = options_.reproducible;
  facts_.algorithms = options_.algorithms;
  RONDO_CHECK_OK(choose_wires());
  if (processes_ != nullptr || here_ < facts_.ranks || !wants_connections(facts_)) return done();

  ConnectionShape shape;
  shape.slots = kSlots;
  shape.wires = facts_.wires;
  shape.slot_bytes = kSlotBytes;
  if (const auto asked = static_cast<std::uint64_t>(env::get_int("NCCL_BUFFSIZE")); asked > 0)
    shape.slot_bytes = std::max(asked / kSlots / kSmallestSlot * kSmallestSlot, kSmallestSlot);
  shape.channels = std::min(std::max(kChannels, options_.fewest_ctas), options_.most_ctas);
  for (const DeviceState& state : distinct_) {
    const DeviceScope scope(state.device);
    RONDO_CHECK_OK(scope.entered());
    RONDO_TRY(const int resident, resident_connected_ctas(api_, state.device));
    shape.channels = std::min(shape.channels, resident / static_cast<int>(state.ranks.size()));
  }
  if (shape.channels == 0) return done();  // calls that need them will say so
  std::vector<std::vector<bool>> reaches;
  for (const DeviceState& state : distinct_) {
    for (const DeviceState& peer : distinct_) {
      const auto from = static_cast<std::size_t>(state.device);
      const auto to = static_cast<std::size_t>(peer.device);
      reaches.resize(std::max({reaches.size(), from + 1, to + 1}));
      for (auto& row : reaches) row.resize(reaches.size());
      int can = 1;
      if (from != to)
        RONDO_CHECK_OK(check(api_.can_access_peer(&can, state.device, peer.device),
                             "cudaDeviceCanAccessPeer"));
      reaches[from][to] = can != 0;
    }
  }
  RONDO_TRY(connections_, DeviceConnections::make(devices_, reaches, shape));
  for (int r = 0; r < facts_.ranks; ++r)
    connections_->host_control(r).limit_ns =
        static_cast<std::uint64_t>(options_.kernel_seconds * 1e9);
  facts_.fewest_channels = std::min(options_.fewest_ctas, shape.channels);
  facts_.most_channels = shape.channels;
  facts_.slot_bytes = shape.slot_bytes;
  return done();
}

// By NCCL_PROTO; LL128 without being asked only where every path is known to keep lines whole.
Done DeviceTeam::choose_wires() {
  bool whole = facts_.all_reach;
  for (const DeviceState& state : distinct_) {
    int major = 0, minor = 0;
    RONDO_CHECK_OK(
        check(api_.attribute(&major, GpuAttribute::kMajor, state.device), "cuDeviceGetAttribute"));
    RONDO_CHECK_OK(
        check(api_.attribute(&minor, GpuAttribute::kMinor, state.device), "cuDeviceGetAttribute"));
    const int capability = 10 * major + minor;
    whole = whole && lines_stay_whole(capability, LinePath::kWithinDevice) &&
            (distinct_.size() == 1 || lines_stay_whole(capability, LinePath::kBetweenDevices));
  }
  const auto unnamed =
      static_cast<std::uint8_t>(kUsualWires | (whole ? bit_of(cuda::Wire::kLL128) : 0));
  const std::string protocols = env::get_string("NCCL_PROTO");
  RONDO_TRY(facts_.wires, parse_protocols(protocols, unnamed));
  if (!facts_.all_reach) facts_.wires &= static_cast<std::uint8_t>(~bit_of(cuda::Wire::kLL128));
  if (facts_.wires == 0)
    return fail(Status::kInvalidUsage,
                "NCCL_PROTO is '{}', but LL128 needs devices that reach each other's memory: lines "
                "in host memory do not stay whole; allow simple or ll",
                protocols);
  return done();
}

Done DeviceTeam::launch_volley(const DevicePlan& plan, Meeting& meeting) {
  std::vector<Side> sides;
  for (const Posted& posted : meeting.posted) sides.push_back(posted.call.side);
  const CallRecord& record = meeting.posted[0].call.record;
  const GpuCaptureInfo capture = meeting.posted[0].capture;
  // First every device waits for what was launched before, then all are launched: none waits for
  // another one's part of this volley.
  std::vector<Spot> spots;
  for (int place = 0; place < static_cast<int>(distinct_.size()); ++place) {
    const DeviceState& state = distinct_[place];
    const DeviceScope scope(state.device);
    RONDO_CHECK_OK(scope.entered());
    std::vector<Posted> here;
    for (const int rank : state.ranks) here.push_back(meeting.posted[rank]);
    // A rank's own stream, unless its handle means another one on this thread.
    const GpuStream stream = here[0].call.stream;
    spots.push_back(
        {place, stream == kPerThreadStream ? state.own : stream, nullptr, capture, true});
    RONDO_CHECK_OK(begin_launch(spots.back(), here));
  }
  for (const Spot& spot : spots) {
    const DeviceState& state = distinct_[spot.place];
    const DeviceScope scope(state.device);
    RONDO_CHECK_OK(scope.entered());
    RONDO_CHECK_OK(
        launch_connected(api_, *connections_, plan, record, sides, state.ranks, spot.stream));
    RONDO_CHECK_OK(end_launch(spot));
  }
  set_newest(spots[0]);
  return done();
}

void DeviceTeam::stop_kernels() {
  for (int r = 0; connections_ != nullptr && r < facts_.ranks; ++r)
    __atomic_store_n(&connections_->host_control(r).abort, 1u, __ATOMIC_RELEASE);
}

std::optional<DeviceTeam::KernelFault> DeviceTeam::kernel_fault(int rank) const {
  if (connections_ == nullptr) return std::nullopt;
  const cuda::Control& control = connections_->host_control(rank);
  if (__atomic_load_n(&control.gave_up, __ATOMIC_ACQUIRE) == 0) return std::nullopt;
  return KernelFault{
      control.peer, control.call,
      fmt::format("rank {} waited {} s in the kernel of {} for rank {} to {} (channel {}, step "
                  "{}); RONDO_TIMEOUT sets this limit",
                  rank, options_.kernel_seconds, to_string(control.call), control.peer,
                  control.wants_room != 0 ? "take data" : "send data", control.channel,
                  control.step)};
}

}  // namespace rondo::gpu
