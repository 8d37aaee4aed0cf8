// What ranks on host memory are told of every kind of fault: tests/golden/files/faults_*.txt.
#include <gtest/gtest.h>

#include "tests/golden/fault_jobs.h"

namespace rondo::test {
namespace {

RankMemory host_memory(int) {
  RankMemory memory;
  memory.bytes = std::calloc(1, kFaultBytes);
  return memory;
}

const FaultPlacement kPlacements[] = {
    {"threads", {3}, {}, {}, host_memory},
    {"processes", {1, 1, 1}, {}, {}, host_memory},
    {"threads_and_a_process", {2, 1}, {}, {}, host_memory},
    {"hosts", {1, 1, 1}, {"a", "b", "c"}, {}, host_memory},
    {"two_hosts", {1, 1, 1}, {"a", "a", "b"}, {}, host_memory},
};

class FaultGolden : public testing::TestWithParam<FaultPlacement> {};

TEST_P(FaultGolden, OfEveryKind) { expect_golden_faults(GetParam()); }

INSTANTIATE_TEST_SUITE_P(Placements, FaultGolden, testing::ValuesIn(kPlacements),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace rondo::test
