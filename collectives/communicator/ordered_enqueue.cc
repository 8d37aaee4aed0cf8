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

// The results, by work.
std::vector<Status> agree(std::span<const gpu::RankWork> works) {
  std::vector<Status> results;
  if (works.size() > 1) return gpu::results_at_once(works, agree_on_leaves);
  results.push_back(agree_on_leaves(works.front()));
  return results;
}

// Takes the first n calls out of a work.
gpu::RankWork take(gpu::RankWork& work, std::size_t n) {
  const gpu::RankWork taken{work.state, work.calls.first(n)};
  work.calls = work.calls.subspan(n);
  return taken;
}

// After a fault: the others' calls go on.
void drop(std::span<gpu::RankWork> works, const RankState* of) {
  for (gpu::RankWork& work : works)
    if (work.state == of) work.calls = {};
}

}  // namespace

bool has_ordered(std::span<const gpu::RankWork> works) {
  return std::any_of(works.begin(), works.end(), [](const gpu::RankWork& work) {
    return std::any_of(work.calls.begin(), work.calls.end(), is_ordered_call);
  });
}

Status enqueue_with_ordered(std::span<gpu::RankWork> works) {
  for (gpu::RankWork& work : works)
    std::stable_partition(work.calls.begin(), work.calls.end(), [](const Call& call) {
      return !is_point_to_point(call) && !is_one_sided(call);
    });
  Status first_error = ok_status();
  while (true) {
    std::vector<gpu::RankWork> plain, ordered, agreed;
    for (gpu::RankWork& work : works) {
      const auto next = std::find_if(work.calls.begin(), work.calls.end(), is_ordered_call);
      const auto before = static_cast<std::size_t>(next - work.calls.begin());
      if (before > 0) plain.push_back(take(work, before));
    }
    if (!plain.empty()) RONDO_CHECK_OK(gpu::enqueue_together(plain));
    for (gpu::RankWork& work : works)
      if (!work.calls.empty()) ordered.push_back(take(work, 1));
    if (ordered.empty()) return first_error;
    std::vector<Status> results = agree(ordered);
    for (std::size_t i = 0; i < ordered.size(); ++i) {
      if (!results[i].ok()) {
        if (first_error.ok()) first_error = std::move(results[i]);
        if (!ordered[i].state->faults.standing().ok()) drop(works, ordered[i].state);
      } else if (ordered[i].calls.front().record.count > 0) {
        agreed.push_back(ordered[i]);
      }
    }
    if (!agreed.empty()) RONDO_CHECK_OK(gpu::enqueue_together(agreed));
  }
}

}  // namespace rondo
