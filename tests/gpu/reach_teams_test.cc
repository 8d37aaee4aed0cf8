// SPDX-License-Identifier: Apache-2.0
// Teams of the device API, which programs divide by before they ask whether there is one: ranks
// whose GPUs load and store each other's memory, in every placement, with P2P that works, that
// reaches some pairs only, that lies, and none.
#include "api/nccl_device.h"
#include "tests/gpu/cliques.h"
#include "tests/gpu/process_bodies.h"

namespace rondo::test {
namespace {

struct TeamRow {
  const char* name;
  Layout layout;
  int lsa;  // ranks of each Lsa team
};

const Layout kFour = as_processes(4, Gpus::kOneEach);
const Layout kTwoHosts = {{{0}, {1}, {2}, {3}}, {"a", "a", "b", "b"}};
// Host b has P2P that loses what is written; only its own ranks find out.
Layout with_a_host_that_lies() {
  Layout layout = kTwoHosts;
  layout.of_process = {{}, {}, {{"RONDO_SIMT", "p2p=lost"}}, {{"RONDO_SIMT", "p2p=lost"}}};
  return layout;
}

const TeamRow kTeamRows[] = {
    {"processes", kFour, 4},
    {"threads", {{{0, 1, 2, 3}}}, 4},
    {"one_gpu", {{{0, 0, 0}}}, 3},
    {"processes_on_one_gpu", as_processes(3, Gpus::kOne), 3},
    {"pairs", kFour.under({{"RONDO_SIMT", "p2p=pairs"}}), 2},
    {"no_p2p", kFour.under({{"RONDO_SIMT", "p2p=none"}}), 1},
    {"p2p_that_lies", kFour.under({{"RONDO_SIMT", "p2p=lost"}}), 1},
    {"hosts", kTwoHosts, 2},
    {"uneven_hosts", {{{0}, {1}, {2}}, {"a", "a", "b"}}, 1},
    {"taking_turns", {{{0}, {1}, {2}, {3}}, {"a", "b", "a", "b"}}, 1},
    {"one_host_that_lies", with_a_host_that_lies(), 1},
    // Not 4: kernels cannot map windows of other hosts.
    {"clique", in_cliques(kTwoHosts, {1, 1, 1, 1}), 2},
    {"host_memory", as_processes(2, Gpus::kNone, {{"RONDO_DEVICE", "host"}}), 1},
    {"threads_in_host_memory", as_threads(3).under({{"RONDO_DEVICE", "host"}}), 3},
};

class ReachTeams : public testing::TestWithParam<TeamRow> {};
INSTANTIATE_TEST_SUITE_P(Layouts, ReachTeams, testing::ValuesIn(kTeamRows),
                         [](const auto& info) { return std::string(info.param.name); });

void expect_team(const ncclTeam_t& team, int ranks, int rank, int stride) {
  EXPECT_EQ(team.nRanks, ranks);
  EXPECT_EQ(team.rank, rank);
  EXPECT_EQ(team.stride, stride);
}

TEST_P(ReachTeams, AreTrue) {
  if (gpus_there() < GetParam().layout.devices()) GTEST_SKIP() << "too few GPUs";
  const int lsa = GetParam().lsa;
  run_job(GetParam().layout, [lsa](NcclRank& seat) {
    ncclComm_t comm = seat.comm;
    expect_team(ncclTeamWorld(comm), seat.size, seat.rank, 1);
    expect_team(ncclTeamLsa(comm), lsa, seat.rank % lsa, 1);
    expect_team(ncclTeamRail(comm), seat.size / lsa, seat.rank / lsa, lsa);
    expect_team(ncclTeamCft(comm), 1, 0, 1);
    for (int r = 0; r < lsa; ++r)
      EXPECT_EQ(ncclTeamRankToWorld(comm, ncclTeamLsa(comm), r), seat.rank / lsa * lsa + r);
    for (int r = 0; r < seat.size / lsa; ++r)
      EXPECT_EQ(ncclTeamRankToWorld(comm, ncclTeamRail(comm), r), r * lsa + seat.rank % lsa);
    EXPECT_EQ(ncclTeamRankToWorld(comm, ncclTeamLsa(comm), lsa), -1);
    EXPECT_EQ(ncclTeamRankToLsa(comm, ncclTeamWorld(comm), seat.rank), seat.rank % lsa);
    const int apart = (seat.rank + lsa) % seat.size;  // of another team, if there is one
    EXPECT_EQ(ncclTeamRankToLsa(comm, ncclTeamWorld(comm), apart),
              lsa == seat.size ? seat.rank % lsa : -1);
    ncclCommProperties_t properties = NCCL_COMM_PROPERTIES_INITIALIZER;
    NCCL_OK(ncclCommQueryProperties(comm, &properties));
    EXPECT_EQ(properties.nLsaTeams, seat.size / lsa);
    EXPECT_EQ(properties.deviceApiSupport, seat.on_gpu());
  });
}

}  // namespace
}  // namespace rondo::test
