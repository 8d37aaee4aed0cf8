// SPDX-License-Identifier: Apache-2.0
#include "collectives/gpu/team/team_context.h"

#include <algorithm>
#include <new>
#include <vector>

#include "collectives/gpu/launch/strategies.h"
#include "kernels/cuda/kernels.h"
#include "transport/cuda/device.h"
#include "transport/cuda/stream_event.h"
#include "transport/cuda/streams.h"

namespace rondo::gpu {

namespace {

// Over the network only rings and trees run, and messages.
Status load_kernels_of(const DevicePlanFacts& facts) {
  if (facts.crosses()) return load_kernels({cuda::kConnectedCopyKernel}, {cuda::connected_kernel});
  std::vector<int> copies = {cuda::kCopyKernel, cuda::kConnectedCopyKernel, cuda::kLLPushCopyKernel,
                             cuda::kStagedCopyKernel, cuda::kClearLinesKernel};
  if (facts.processes && facts.shared_bytes > 0) copies.push_back(cuda::kMeetingKernel);
  for (int row = 0; row < cuda::kMulticastKernels && facts.hosts == 1; ++row)
    copies.push_back(cuda::kFirstMulticastKernel + row);
  if (facts.ranks <= cuda::kNarrowRanks)
    return load_kernels(copies,
                        {cuda::direct_kernel, cuda::connected_kernel, cuda::ll_push_kernel});
  copies.push_back(cuda::kWideLLPushCopyKernel);
  return load_kernels(copies, {cuda::direct_kernel, cuda::wide_direct_kernel,
                               cuda::connected_kernel, cuda::wide_ll_push_kernel});
}

}  // namespace

TeamContext::TeamContext(TeamOptions agreed, std::shared_ptr<TeamEdges> others)
    : options(std::move(agreed)),
      edges(std::move(others)),
      order(edges ? edges->order() : own_order),
      memory(edges && edges->memory() != nullptr ? *edges->memory()
                                                 : own_memory.emplace(options.here)),
      facts(edges ? edges->facts() : options.plan.plan) {}

Status TeamContext::open() {
  const DeviceScope scope(options.device);
  RONDO_CHECK_OK(scope.entered());
  if (is_hosted()) return ok_status();
  RONDO_CHECK_OK(load_kernels_of(facts));
  if (edges == nullptr) RONDO_CHECK_OK(load_kernels({cuda::kCountedMessagesKernel}, {}));
  RONDO_TRY(max_ctas, max_direct_ctas(options.device));
  if (edges == nullptr)
    RONDO_CHECK_OK(order.open({.device = options.device,
                               .ranks = places(),
                               .ordered = ranks() > 1,
                               .mixes_graphs = options.mixes_graphs,
                               .takes_turns = options.takes_turns}));
  if (edges != nullptr) {
    connections = edges->connections();
    multicast = edges->multicast();
  } else if (facts.max_channels > 0) {  // else calls that need connections will fail
    const GpuPlan& plan = options.plan;
    RONDO_TRY(own_connections,
              DeviceConnections::make(options.device, plan.near, plan.shape, plan.orders));
    connections = own_connections.get();
    connections->list_in(memory, {});
    RONDO_CHECK_OK(connections->lazy().make_zeroed());
  }
  for (const int rank : here)
    if (connections != nullptr)
      connections->host_control(rank).limit_ns =
          static_cast<std::uint64_t>(options.kernel_seconds * 1e9);
  return ok_status();
}

void TeamContext::set_tuned(std::shared_ptr<const TunedWays> ways) {
  if (tuned) return;
  tuned = std::move(ways);
  facts.tuned = tuned.get();
}

Status TeamContext::open_reports() {
  if (report_memory) return ok_status();
  const RelaxedCapture relaxed;
  RONDO_TRY(report_memory, allocate_pinned(here.size() * sizeof(cuda::Control),
                                           "pinned memory for reports of kernels"));
  for (std::size_t place = 0; place < here.size(); ++place)
    new (report_memory.get() + place * sizeof(cuda::Control)) cuda::Control{};
  return ok_status();
}

LaunchPosition TeamContext::site_of_first(const JointCall& call) const {
  const PostedCall& first = call.posted.front();
  LaunchPosition site = site_of(0, {first.call.stream, first.ready, first.capture});
  if (site.stream != kPerThreadStream || is_alone()) return site;
  site.stream = order.own_stream();
  site.ready = nullptr;
  return site;
}

Status TeamContext::begin_launch(const LaunchPosition& site, std::span<const PostedCall> calls,
                                 RankSet ranks, StreamOrder::Kind kind) {
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const PostedCall& other = calls[i];
    if (!same_capture(other.capture, site.capture))
      return fail(StatusCode::kInvalidUsage,
                  "ranks that share a GPU in one process make one call from different graphs, or "
                  "only some of them while capturing: capture all of them into one graph");
    if (other.ready == site.ready || same_stream(other.call.stream, site.stream)) continue;
    const auto is_same = [&](const PostedCall& one) { return one.ready == other.ready; };
    if (std::any_of(calls.begin(), calls.begin() + static_cast<std::ptrdiff_t>(i), is_same))
      continue;  // already waited for
    RONDO_CHECK_OK(order.note(other.ready));
    RONDO_CHECK_OK(wait_for_event(site.stream, other.ready, GpuEventUse::kPlain));
  }
  return order.begin(site, ranks, kind);
}

}  // namespace rondo::gpu
