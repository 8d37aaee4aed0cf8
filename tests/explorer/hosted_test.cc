// SPDX-License-Identifier: Apache-2.0
// READY, DONE and the call slot of calls through the host, under every interleaving of the stream
// and the thread, and the proof that each of their memory orderings is needed.
#include "tests/explorer/expect.h"
#include "tests/explorer/hosted_scenario.h"

namespace rondo::explorer {
namespace {

class Hosted : public testing::TestWithParam<Model> {};

TEST_P(Hosted, CallsOfOneStepAndTwoFollowEachOther) {
  HostedScenario scenario(5, 1);
  expect_passes(scenario, GetParam());
}
TEST_P(Hosted, LongCallsUseTheirHalvesOfStagingAgain) {
  HostedScenario scenario(3, 4);
  expect_passes(scenario, GetParam());
}
INSTANTIATE_TEST_SUITE_P(Models, Hosted, testing::Values(Model::kTso, Model::kWeak),
                         [](const auto& info) { return name(info.param); });

struct MutantCase {
  const char* name;
  Mutant mutant;
  const char* failure;
};
void PrintTo(const MutantCase& c, std::ostream* out) { *out << c.name; }

class HostedMutant : public testing::TestWithParam<MutantCase> {};

TEST_P(HostedMutant, IsFound) {
  HostedScenario scenario(3, 2);
  expect_found(scenario, Model::kTso, GetParam().mutant, GetParam().failure);
}

INSTANTIATE_TEST_SUITE_P(
    Each, HostedMutant,
    testing::Values(
        MutantCase{"ReadyRelaxed", weaker_store(Role::kTail, Order::kRelease, Order::kRelaxed),
                   "data race: reads input"},
        MutantCase{"ReadyLoadedRelaxed", weaker_load(Role::kTail, Order::kAcquire, Order::kRelaxed),
                   "data race: reads input"},
        MutantCase{"DoneRelaxed", weaker_store(Role::kHead, Order::kRelease, Order::kRelaxed),
                   "data race: reads output"},
        MutantCase{"DoneLoadedRelaxed", weaker_load(Role::kHead, Order::kAcquire, Order::kRelaxed),
                   "data race: reads output"},
        MutantCase{"OneReadyTooMany", too_many(Role::kTail), ""},
        MutantCase{"OneDoneTooMany", too_many(Role::kHead), ""}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace rondo::explorer
