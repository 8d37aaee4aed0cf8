// SPDX-License-Identifier: Apache-2.0
// Connection and Waiter under every interleaving, and the proof that each of their memory orderings
// is needed.
#include "tests/explorer/expect.h"
#include "tests/explorer/slots_scenario.h"

namespace rondo::explorer {
namespace {

using Kind = Mutant::Kind;

class Slots : public testing::TestWithParam<Model> {};

TEST_P(Slots, OneSlotCarriesEveryMessage) {
  SlotsScenario scenario(2, 1, 4);
  expect_passes(scenario, GetParam());
}
TEST_P(Slots, TwoSlotsCarryEveryMessage) {
  SlotsScenario scenario(2, 2, 5);
  expect_passes(scenario, GetParam());
}
TEST_P(Slots, CarryWhatIsStoredPastTheCaches) {
  SlotsScenario past(2, 2, 5, SlotsScenario::Stores::kPast);
  expect_passes(past, GetParam());
  SlotsScenario in_turn(3, 1, 2, SlotsScenario::Stores::kInTurn);
  expect_passes(in_turn, GetParam());
}
TEST_P(Slots, OfLightConnectionsWakeBothEnds) {
  SlotsScenario scenario(2, 2, 5, SlotsScenario::Stores::kThrough, Wakes::kLight);
  expect_passes(scenario, GetParam());
}
TEST_P(Slots, SleepsThatTimeOutDoNoHarm) {
  SlotsScenario scenario(2, 2, 4);
  expect_passes(scenario, GetParam(), {2, Limits::kUnlimited});
}
TEST_P(Slots, ARelayPassesEveryMessageOn) {
  SlotsScenario scenario(3, 1, 2);
  expect_passes(scenario, GetParam());
}
INSTANTIATE_TEST_SUITE_P(Models, Slots, testing::Values(Model::kTso, Model::kWeak),
                         [](const auto& info) { return name(info.param); });

struct MutantCase {
  const char* name;
  Model model;
  Mutant mutant;
  const char* failure;
};
void PrintTo(const MutantCase& c, std::ostream* out) { *out << c.name; }

class SlotsMutant : public testing::TestWithParam<MutantCase> {};

TEST_P(SlotsMutant, IsFound) {
  SlotsScenario scenario(2, 2, 4);
  expect_found(scenario, GetParam().model, GetParam().mutant, GetParam().failure);
}

TEST(SlotsPastTheCaches, NeedTheFence) {
  SlotsScenario scenario(2, 2, 4, SlotsScenario::Stores::kPast);
  expect_found(scenario, Model::kTso, without(Kind::kNoPastFence), "data race");
}

TEST(SlotsOfLightConnections, NeedTheFenceOfThoseWhoSleep) {
  SlotsScenario scenario(2, 2, 4, SlotsScenario::Stores::kThrough, Wakes::kUnfenced);
  expect_found(scenario, Model::kTso, {}, "lost wake-up");
}

INSTANTIATE_TEST_SUITE_P(
    Each, SlotsMutant,
    testing::Values(
        MutantCase{"TailReleased", Model::kTso,
                   weaker_store(Role::kTail, Order::kSeqCst, Order::kRelease), "lost wake-up"},
        MutantCase{"TailRelaxed", Model::kTso,
                   weaker_store(Role::kTail, Order::kSeqCst, Order::kRelaxed), "data race"},
        MutantCase{"HeadReleased", Model::kTso,
                   weaker_store(Role::kHead, Order::kSeqCst, Order::kRelease), "lost wake-up"},
        MutantCase{"HeadRelaxed", Model::kTso,
                   weaker_store(Role::kHead, Order::kSeqCst, Order::kRelaxed), "data race"},
        MutantCase{"TailLoadedRelaxed", Model::kTso,
                   weaker_load(Role::kTail, Order::kAcquire, Order::kRelaxed), "data race"},
        MutantCase{"HeadLoadedRelaxed", Model::kTso,
                   weaker_load(Role::kHead, Order::kAcquire, Order::kRelaxed), "data race"},
        MutantCase{"ParkedLoadedAcquire", Model::kWeak,
                   weaker_load(Role::kParked, Order::kSeqCst, Order::kAcquire), "lost wake-up"},
        MutantCase{"NoFenceInPark", Model::kTso, without(Kind::kNoFence), "lost wake-up"},
        MutantCase{"NoRecheck", Model::kTso, without(Kind::kNoRecheck), "lost wake-up"},
        MutantCase{"BellReadAfterRecheck", Model::kTso, without(Kind::kBellReadLate),
                   "lost wake-up"},
        MutantCase{"NoIncrement", Model::kTso, without(Kind::kNoIncrement), "lost wake-up"},
        MutantCase{"NoWake", Model::kTso, without(Kind::kNoWake), "lost wake-up"},
        MutantCase{"NoRing", Model::kTso, without(Kind::kNoRing), "lost wake-up"},
        MutantCase{"OneCreditTooMany", Model::kTso, too_many(Role::kHead), "another message"},
        MutantCase{"OneMessageTooMany", Model::kTso, too_many(Role::kTail), ""}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace rondo::explorer
