#include "collectives/gpu/staging/spanning_kernels.h"

#include <fmt/core.h>

#include "base/atomics.h"
#include "base/bytes.h"
#include "base/log.h"
#include "collectives/gpu/launch/kernel_loading.h"
#include "collectives/gpu/launch/strategies.h"
#include "kernels/cuda/kernels.h"
#include "kernels/reduce.h"
#include "transport/cuda/device.h"
#include "transport/open_network.h"

namespace rondo::gpu {
namespace {

constexpr auto kNap = std::chrono::microseconds(200);

std::vector<RelayLine> lines_of(const DeviceConnections& connections, int rank) {
  std::vector<RelayLine> lines;
  for (const ConnectionLayout::Edge& edge : connections.layout().edges()) {
    if (!edge.crosses || (edge.from != rank && edge.to != rank)) continue;
    const bool sends = edge.from == rank;
    for (int c = 0; c < connections.layout().shape().channels; ++c)
      lines.push_back({relay_link(edge.from, edge.to, edge.lane, c),
                       connections.mirror(edge, sends ? cuda::kOutgoing : cuda::kIncoming, c),
                       sends});
  }
  return lines;
}

}  // namespace

Result<std::unique_ptr<SpanningKernels>> SpanningKernels::open(
    Terms terms, std::shared_ptr<DeviceConnections> connections) {
  std::unique_ptr<SpanningKernels> made(
      new SpanningKernels(std::move(terms), std::move(connections)));
  RONDO_CHECK_OK(made->open());
  return made;
}

SpanningKernels::SpanningKernels(Terms terms, std::shared_ptr<DeviceConnections> connections)
    : api_(*gpu_api()), terms_(std::move(terms)), connections_(std::move(connections)) {}

Done SpanningKernels::open() {
  const DeviceScope scope(terms_.device);
  RONDO_CHECK_OK(scope.entered());
  RONDO_CHECK_OK(load_kernels(api_, {cuda::kConnectedCopyKernel}, {cuda::connected_kernel}));
  RONDO_CHECK_OK(open_bell());
  connections_->host_control(terms_.rank).limit_ns =
      static_cast<std::uint64_t>(terms_.kernel_seconds * 1e9);
  constexpr int kStreams = 1;  // channels are enough
  RONDO_TRY(auto network, open_network({terms_.rank, terms_.secret, "relay", kStreams}));
  RONDO_TRY(relay_, Relay::open(std::move(network), lines_of(*connections_, terms_.rank)));
  RONDO_TRY(roll_call_, RollCall::open({terms_.rank, terms_.size, terms_.secret, terms_.name_of,
                                        terms_.raise}));
  return done();
}

std::vector<std::byte> SpanningKernels::address() const {
  ByteWriter both;
  both.put_bytes(relay_->address());
  both.put_bytes(roll_call_->address());
  return both.take();
}

Done SpanningKernels::connect(std::span<const std::vector<std::byte>> addresses,
                              const net::Patience& patience) {
  std::vector<std::vector<std::byte>> relays, controls;
  for (const auto& both : addresses) {
    ByteReader reader(both);
    relays.push_back(reader.get_bytes());
    controls.push_back(reader.get_bytes());
    if (!reader.ok())
      return fail(Status::kRemoteError, "a rank gave no address for connections between hosts");
  }
  RONDO_CHECK_OK(roll_call_->connect(std::move(controls)));
  RONDO_CHECK_OK(relay_->connect(relays));
  RONDO_TRY(thread_, Thread::start(
                         "connections between hosts", [this] { serve(); }, [](const Error&) {}));
  while (!is_open_.load(std::memory_order_acquire)) {
    if (patience.aborted && patience.aborted())
      return fail(Status::kInvalidUsage, "aborted while connections between hosts were opened");
    if (roll_call_->has_ended())
      return fail(Status::kRemoteError, "a rank gave up while connections were opened");
    if (std::chrono::steady_clock::now() > patience.deadline)
      return fail(Status::kTimeout,
                  "rank {} timed out while it opened the connections of its GPU to other hosts; "
                  "RONDO_INIT_TIMEOUT sets this limit",
                  terms_.rank);
    std::this_thread::sleep_for(kNap);
  }
  return done();
}

SpanningKernels::~SpanningKernels() {
  stop_ = true;
  wake();
  if (thread_.joinable()) thread_.join();
}

Done SpanningKernels::announce(const CallRecord& record) { return roll_call_->announce(record); }

std::optional<DevicePlan> SpanningKernels::plan(const CallRecord& record) const {
  return plan_across_hosts(terms_.plan, terms_.from_bytes, record);
}

Done SpanningKernels::launch(const DevicePlan& plan, const DeviceCall& call) {
  std::vector<Side> sides(static_cast<std::size_t>(terms_.size));
  sides[static_cast<std::size_t>(terms_.rank)] = call.side;
  const int here[] = {terms_.rank};
  if (sleeps_.load(std::memory_order_seq_cst)) wake();  // first: launches may be blocking
  DeviceLaunch launch{api_, *connections_, plan, call.record, sides, here};
  launch.stream = call.stream;
  return launch_connected(launch);
}

bool SpanningKernels::gave_up() const {
  return HostAtomics::load_acquire(connections_->host_control(terms_.rank).gave_up) != 0;
}

void SpanningKernels::end(const Fault& fault) {
  // Not those of other ranks of this process: they shall know why before their streams end.
  HostAtomics::store_release(connections_->host_control(terms_.rank).abort, std::uint32_t{1});
  roll_call_->end(fault);
  wake();
}

}  // namespace rondo::gpu
