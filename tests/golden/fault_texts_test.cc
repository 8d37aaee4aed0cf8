// SPDX-License-Identifier: Apache-2.0
// The error texts of ranks on host memory for every kind of fault: tests/golden/files/faults.txt.
#include <gtest/gtest.h>

#include "tests/golden/fault_jobs.h"

namespace rondo::test {
namespace {

constexpr int kHost = kHostMemory;

const FaultLayout kLayouts[] = {
    {"threads", as_threads(3)},
    {"processes", as_processes(3)},
    {"threads_and_a_process", {{{kHost, kHost}, {kHost}}}},
    {"hosts", {{{kHost}, {kHost}, {kHost}}, {"a", "b", "c"}}},
    {"two_hosts", {{{kHost}, {kHost}, {kHost}}, {"a", "a", "b"}}},
};

class FaultGolden : public testing::TestWithParam<FaultLayout> {};

TEST_P(FaultGolden, OfEveryKind) { expect_golden_faults(GetParam()); }

INSTANTIATE_TEST_SUITE_P(Placements, FaultGolden, testing::ValuesIn(kLayouts),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace rondo::test
