// SPDX-License-Identifier: Apache-2.0
// CallOrder under every interleaving, and the proof that each of its orderings is needed.
#include "tests/explorer/call_order_scenario.h"
#include "tests/explorer/expect.h"

namespace rondo::explorer {
namespace {

using Kind = Mutant::Kind;

class Turns : public testing::TestWithParam<Model> {};

TEST_P(Turns, EndTheSleepOfTheNextOne) {
  CallOrderScenario<true> scenario(3);
  expect_passes(scenario, GetParam());
}
TEST_P(Turns, EndItWhereThreadsHaveNoCommonFence) {
  CallOrderScenario<false> scenario(3);
  expect_passes(scenario, GetParam());
}
TEST_P(Turns, SleepsThatTimeOutDoNoHarm) {
  CallOrderScenario<true> scenario(2);
  expect_passes(scenario, GetParam(), {2, Limits::kUnlimited});
}
INSTANTIATE_TEST_SUITE_P(Models, Turns, testing::Values(Model::kTso, Model::kWeak),
                         [](const auto& info) { return name(info.param); });

struct MutantCase {
  const char* name;
  Model model;
  Mutant mutant;
  const char* failure;
};
void PrintTo(const MutantCase& c, std::ostream* out) { *out << c.name; }

class TurnsMutant : public testing::TestWithParam<MutantCase> {};

TEST_P(TurnsMutant, IsFound) {
  CallOrderScenario<true> scenario(3);
  expect_found(scenario, GetParam().model, GetParam().mutant, GetParam().failure);
}

INSTANTIATE_TEST_SUITE_P(
    Each, TurnsMutant,
    testing::Values(
        MutantCase{"NoFence", Model::kTso, without(Kind::kNoFence), "lost wake-up"},
        MutantCase{"NoIncrement", Model::kTso, without(Kind::kNoIncrement), "lost wake-up"},
        MutantCase{"NoWake", Model::kTso, without(Kind::kNoWake), "lost wake-up"},
        MutantCase{"NoRing", Model::kTso, without(Kind::kNoRing), "lost wake-up"},
        MutantCase{"BellReadAfterTheTurn", Model::kTso, without(Kind::kBellReadLate),
                   "lost wake-up"},
        MutantCase{"TurnRelaxed", Model::kTso,
                   weaker_store(Role::kTail, Order::kRelease, Order::kRelaxed), "data race"},
        MutantCase{"TurnLoadedRelaxed", Model::kTso,
                   weaker_load(Role::kTail, Order::kAcquire, Order::kRelaxed), "data race"}),
    [](const auto& info) { return info.param.name; });

TEST(TurnsWithoutACommonFence, AreStoredWithABarrier) {
  CallOrderScenario<false> scenario(3);
  expect_found(scenario, Model::kTso, weaker_store(Role::kTail, Order::kSeqCst, Order::kRelease),
               "lost wake-up");
}

}  // namespace
}  // namespace rondo::explorer
