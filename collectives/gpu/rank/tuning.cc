// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>

#include "base/log.h"
#include "collectives/gpu/rank/device_rank.h"
#include "collectives/gpu/rank/entry_points.h"
#include "collectives/tuner/ask_tuner.h"

namespace rondo::gpu {
namespace {

tuner::About about(const RankState& state) {
  const Membership& members = state.members;
  // Equal on all ranks, and reveals nothing of their secret.
  const auto digest = state.secret.derive("tuner plugin").bytes();
  tuner::About about;
  std::memcpy(&about.communicator, digest.data(), sizeof(about.communicator));
  about.ranks = members.size;
  about.hosts = members.shape.hosts();
  about.min_ranks_of_host = members.shape.rails;
  about.max_ranks_of_host = members.shape.largest;
  return about;
}

// All ranks see all digests, so all of them call this, or none does.
Result<std::string> refusal(const TunedWays& own, int other, const Membership& members,
                            bootstrap::Session& session) {
  RONDO_TRY(const auto all, session.all_gather(own.encode()));
  const auto first = TunedWays::decode(all[0]);
  const auto theirs = TunedWays::decode(all[static_cast<std::size_t>(other)]);
  if (!first || !theirs)
    return fail(StatusCode::kRemoteError,
                "rank {} sent answers of a tuner plugin that cannot be read", first ? other : 0);
  return fmt::format(
      "the tuner plugin of {} chooses {} as on rank 0: give all ranks the same plugin with the "
      "same settings, or set NCCL_TUNER_PLUGIN=none",
      members.name_of(other), theirs->difference(*first));
}

}  // namespace

Result<std::string> agree_on_tuning(RankState& state, bootstrap::Session& session,
                                    const tuner::TunerPlugin& plugin) {
  const DevicePlanFacts& facts = DeviceRank::of(state).plan_facts();
  if (facts.max_channels == 0) return std::string();  // there are no rings
  RONDO_TRY(auto tuner, tuner::Tuner::open(plugin, about(state)));
  const tuner::Asked asked = tuner::ask_tuner(*tuner, facts);
  const std::uint64_t digest = asked.ways.digest();
  const auto blob = std::as_bytes(std::span(&digest, 1));
  RONDO_TRY(const auto all, session.all_gather(blob));
  const auto other = std::find_if(all.begin(), all.end(), [&](const auto& one) {
    return !std::equal(one.begin(), one.end(), all[0].begin(), all[0].end());
  });
  if (other != all.end())
    return refusal(asked.ways, static_cast<int>(other - all.begin()), state.members, session);
  if (state.members.rank == 0 && !asked.complaint.empty()) RONDO_WARN("{}", asked.complaint);
  DeviceRank::of(state).set_tuning(
      std::move(tuner),
      asked.ways.empty() ? nullptr : std::make_shared<const TunedWays>(asked.ways));
  return std::string();
}

}  // namespace rondo::gpu
