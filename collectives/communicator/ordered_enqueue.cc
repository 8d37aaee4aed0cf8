// SPDX-License-Identifier: Apache-2.0
#include "collectives/communicator/ordered_enqueue.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "collectives/planner/leaf_layout.h"
#include "transport/cuda/device.h"

namespace rondo {
namespace {

bool is_ordered_call(const Call& call) { return is_ordered(call.record.collective); }

// Sets the layout of the work's first call.
Status agree_on_leaves(const gpu::RankWork& work) {
  auto& state = static_cast<CommunicatorState&>(*work.state);
  Call& call = work.calls.front();
  std::vector<LeafRun> runs = {call.run};
  if (state.members.size > 1) {
    RONDO_TRY(const auto all,
              meet_in_order(state, to_string(call.record), std::as_bytes(std::span(&call.run, 1))));
    runs.resize(all.size());
    for (std::size_t r = 0; r < all.size(); ++r)
      std::memcpy(&runs[r], all[r].data(), sizeof(LeafRun));
  }
  auto layout = std::make_shared<LeafLayout>();
  const Status set = layout->set(runs, call.record.leaves());
  if (!set.ok()) return fail(set.code(), "{} : {}", name(call.record.collective), set.error().text);
  call.layout = std::move(layout);
  return ok_status();
}

Status agree(std::span<const gpu::RankWork> works) {
  if (works.size() == 1) return agree_on_leaves(works.front());
  return gpu::launch_at_once(works, agree_on_leaves);
}

// Takes the first n calls out of a work.
gpu::RankWork take(gpu::RankWork& work, std::size_t n) {
  const gpu::RankWork taken{work.state, work.calls.first(n)};
  work.calls = work.calls.subspan(n);
  return taken;
}

}  // namespace

bool has_ordered(std::span<const gpu::RankWork> works) {
  return std::any_of(works.begin(), works.end(), [](const gpu::RankWork& work) {
    return std::any_of(work.calls.begin(), work.calls.end(), is_ordered_call);
  });
}

Status enqueue_with_ordered(std::span<gpu::RankWork> works) {
  for (gpu::RankWork& work : works) {
    const auto all = std::remove_if(work.calls.begin(), work.calls.end(), [](const Call& call) {
      return is_ordered_call(call) && call.record.count == 0;
    });
    work.calls = work.calls.first(static_cast<std::size_t>(all - work.calls.begin()));
    std::stable_partition(work.calls.begin(), work.calls.end(), [](const Call& call) {
      return !is_point_to_point(call) && !is_one_sided(call);
    });
  }
  while (true) {
    std::vector<gpu::RankWork> plain, ordered;
    for (gpu::RankWork& work : works) {
      const auto next = std::find_if(work.calls.begin(), work.calls.end(), is_ordered_call);
      const auto before = static_cast<std::size_t>(next - work.calls.begin());
      if (before > 0) plain.push_back(take(work, before));
    }
    if (!plain.empty()) RONDO_CHECK_OK(gpu::enqueue_together(plain));
    for (gpu::RankWork& work : works)
      if (!work.calls.empty()) ordered.push_back(take(work, 1));
    if (ordered.empty()) return ok_status();
    RONDO_CHECK_OK(agree(ordered));
    RONDO_CHECK_OK(gpu::enqueue_together(ordered));
  }
}

}  // namespace rondo
