// SPDX-License-Identifier: Apache-2.0
// Announcer and the wakeups on faults under every interleaving, and the proof that each of their
// memory orderings is needed. (slots_test.cc tests what they share with connections.)
#include "tests/explorer/announcer_scenario.h"
#include "tests/explorer/expect.h"
#include "tests/explorer/fault_scenario.h"

namespace rondo::explorer {
namespace {

using Calls = AnnouncerScenario::Calls;

class Announcements : public testing::TestWithParam<Model> {};

TEST_P(Announcements, LinesWithPayloadReachEveryPeer) {
  AnnouncerScenario scenario(Calls::kLines, 2, 5);
  expect_passes(scenario, GetParam());
}
TEST_P(Announcements, ARankThatWaitsForNobodyOverwritesNoLineThatIsRead) {
  AnnouncerScenario scenario(Calls::kOneWay, 2, 5);
  expect_passes(scenario, GetParam());
}
TEST_P(Announcements, DistinguishCallsByTheirLines) {
  AnnouncerScenario scenario(Calls::kUnlike, 2, 2);
  expect_passes(scenario, GetParam());
}
TEST_P(Announcements, StagingIsWrittenAgainOnlyAfterItWasRead) {
  AnnouncerScenario scenario(Calls::kStaging, 2, 3);
  expect_passes(scenario, GetParam());
}
TEST_P(Announcements, APhaseEndsForAll) {
  AnnouncerScenario scenario(Calls::kPhases, 2, 3);
  expect_passes(scenario, GetParam());
}
TEST_P(Announcements, SleepsThatTimeOutDoNoHarm) {
  AnnouncerScenario scenario(Calls::kLines, 2, 3);
  expect_passes(scenario, GetParam(), {2, Limits::kUnlimited});
}
TEST_P(Announcements, OfLightStoresWakeEveryPeer) {
  for (const Calls calls : {Calls::kLines, Calls::kOneWay, Calls::kPhases}) {
    AnnouncerScenario scenario(calls, 2, 3, Wakes::kLight);
    expect_passes(scenario, GetParam());
  }
}
TEST_P(Announcements, ThreeRanksReadEachOther) {
  AnnouncerScenario scenario(Calls::kLines, 3, 1);
  expect_passes(scenario, GetParam());
}
TEST_P(Announcements, ThreeRanksReadEachOthersLinesAgain) {
  AnnouncerScenario scenario(Calls::kLines, 3, 3);
  expect_passes(scenario, GetParam(), {0, 3});
}
TEST_P(Announcements, TwoRanksReadOneThatRunsAhead) {
  AnnouncerScenario scenario(Calls::kOneWay, 3, 4);
  expect_passes(scenario, GetParam(), {0, 3});
}
TEST_P(Announcements, AFaultEndsTheSleepThatItPrecedes) {
  FaultScenario scenario;
  expect_passes(scenario, GetParam());
}
// kWeak allows everything that kTso does; running both would take twice as long.
INSTANTIATE_TEST_SUITE_P(Models, Announcements, testing::Values(Model::kWeak),
                         [](const auto& info) { return name(info.param); });

struct MutantCase {
  const char* name;
  Calls calls;
  Model model;
  Mutant mutant;
  const char* failure;
};
void PrintTo(const MutantCase& c, std::ostream* out) { *out << c.name; }

class AnnouncerMutant : public testing::TestWithParam<MutantCase> {};

TEST_P(AnnouncerMutant, IsFound) {
  AnnouncerScenario scenario(GetParam().calls, 2, 4);
  expect_found(scenario, GetParam().model, GetParam().mutant, GetParam().failure);
}

INSTANTIATE_TEST_SUITE_P(
    Each, AnnouncerMutant,
    testing::Values(
        MutantCase{"LineReleased", Calls::kLines, Model::kTso,
                   weaker_store(Role::kLine, Order::kSeqCst, Order::kRelease), "lost wake-up"},
        MutantCase{"LineRelaxed", Calls::kLines, Model::kTso,
                   weaker_store(Role::kLine, Order::kSeqCst, Order::kRelaxed), "data race"},
        MutantCase{"LineLoadedRelaxed", Calls::kLines, Model::kTso,
                   weaker_load(Role::kLine, Order::kAcquire, Order::kRelaxed), "data race"},
        MutantCase{"SequenceRelaxed", Calls::kOneWay, Model::kTso,
                   weaker_store(Role::kSequence, Order::kRelease, Order::kRelaxed), "data race"},
        MutantCase{"SequenceLoadedRelaxed", Calls::kOneWay, Model::kTso,
                   weaker_load(Role::kSequence, Order::kAcquire, Order::kRelaxed), "data race"},
        MutantCase{"StepOfLineRelaxed", Calls::kStaging, Model::kTso,
                   weaker_store(Role::kStep, Order::kRelease, Order::kRelaxed), "data race"},
        MutantCase{"StepReleased", Calls::kPhases, Model::kTso,
                   weaker_store(Role::kStep, Order::kSeqCst, Order::kRelease), "lost wake-up"},
        MutantCase{"StepRelaxed", Calls::kPhases, Model::kTso,
                   weaker_store(Role::kStep, Order::kSeqCst, Order::kRelaxed), "data race"},
        MutantCase{"StepLoadedRelaxed", Calls::kStaging, Model::kTso,
                   weaker_load(Role::kStep, Order::kAcquire, Order::kRelaxed), "data race"},
        MutantCase{"OneLineTooMany", Calls::kLines, Model::kTso, too_many(Role::kLine), ""},
        MutantCase{"OneCallTooMany", Calls::kOneWay, Model::kTso, too_many(Role::kSequence), ""},
        MutantCase{"OneStepTooMany", Calls::kStaging, Model::kTso, too_many(Role::kStep), ""},
        MutantCase{"NoRing", Calls::kLines, Model::kTso, without(Mutant::Kind::kNoRing),
                   "lost wake-up"},
        MutantCase{"ParkedLoadedAcquire", Calls::kLines, Model::kWeak,
                   weaker_load(Role::kParked, Order::kSeqCst, Order::kAcquire), "lost wake-up"}),
    [](const auto& info) { return info.param.name; });

TEST(AnnouncerMutant, LightStoresOfLinesAndStepsAreFencedByThoseWhoSleep) {
  for (const Calls calls : {Calls::kLines, Calls::kPhases}) {
    AnnouncerScenario scenario(calls, 2, 4, Wakes::kUnfenced);
    expect_found(scenario, Model::kTso, {}, "lost wake-up");
  }
}

TEST(AnnouncerMutant, AnOwedStepIsNotReportedBeforeAWait) {
  AnnouncerScenario scenario(Calls::kForgottenStep, 2, 3);
  expect_found(scenario, Model::kTso, {}, "lost wake-up");
}

TEST(FaultMutant, BellReadAfterTheSupervisorsCheck) {
  FaultScenario scenario;
  expect_found(scenario, Model::kTso, without(Mutant::Kind::kBellReadAtParking), "lost wake-up");
}
TEST(FaultMutant, IncrementRelaxed) {
  FaultScenario scenario;
  expect_found(scenario, Model::kWeak, without(Mutant::Kind::kIncrement), "lost wake-up");
}
TEST(FaultMutant, FaultRelaxed) {
  FaultScenario scenario;
  expect_found(scenario, Model::kTso, weaker_store(Role::kFault, Order::kRelease, Order::kRelaxed),
               "data race");
}
TEST(FaultMutant, FaultLoadedRelaxed) {
  FaultScenario scenario;
  expect_found(scenario, Model::kTso, weaker_load(Role::kFault, Order::kAcquire, Order::kRelaxed),
               "data race");
}

}  // namespace
}  // namespace rondo::explorer
