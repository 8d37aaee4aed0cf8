// SPDX-License-Identifier: Apache-2.0
// Programs started with standard input, output or error closed: their prints must not reach the
// transport, and these descriptors stay unused by the library.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <string>
#include <vector>

#include "tests/support/nccl_rank.h"
#include "tests/support/plugin/plugins.h"

namespace rondo::test {
namespace {

struct Closed {
  const char* name;
  std::vector<int> descriptors;
};

class ClosedStandard : public testing::TestWithParam<Closed> {};

// What a program does that is not aware of the closed descriptors.
void print_and_read(const std::vector<int>& descriptors) {
  const std::string text = "a line of the program that is longer than any number in a slot\n";
  char taken[8];
  for (const int fd : descriptors) {
    [[maybe_unused]] const auto written = ::write(fd, text.data(), text.size());
    [[maybe_unused]] const auto read = ::read(fd, taken, sizeof taken);
  }
}

void sums_are_right(NcclRank& seat, ncclComm_t comm, const std::vector<int>& descriptors) {
  for (const std::size_t count : {1u, 1000u, 300'000u}) {
    std::vector<int> data(count, seat.rank + 1);
    print_and_read(descriptors);
    const ncclResult_t result =
        ncclAllReduce(data.data(), data.data(), count, ncclInt32, ncclSum, comm, nullptr);
    seat.expect(result == ncclSuccess, ncclGetLastError(nullptr));
    const int sum = seat.size * (seat.size + 1) / 2;
    seat.expect(data.front() == sum && data.back() == sum, fmt::format("not {}", sum));
  }
}

void work_with_closed(NcclRank& seat, const std::vector<int>& descriptors) {
  for (const int fd : descriptors) ::close(fd);
  seat.join();
  if (seat.comm == nullptr) return seat.expect(false, ncclGetLastError(nullptr));
  sums_are_right(seat, seat.comm, descriptors);
  void* memory = nullptr;  // in the arena, which also has a file
  seat.expect(ncclMemAlloc(&memory, 1 << 20) == ncclSuccess, ncclGetLastError(nullptr));
  ncclComm_t child = nullptr;
  const ncclResult_t split = ncclCommSplit(seat.comm, 0, seat.rank, &child, nullptr);
  seat.expect(split == ncclSuccess, ncclGetLastError(nullptr));
  sums_are_right(seat, child, descriptors);
  ncclCommDestroy(child);
  seat.leave();
}

// filled: a library that opens descriptors itself is loaded.
void expect_all_work(Job job, const std::vector<int>& descriptors, bool filled = false) {
  job.create = false;
  run_job(job, [&](NcclRank& seat) {
    work_with_closed(seat, descriptors);
    for (const int fd : descriptors) {
      char byte = 0;
      const bool is_unused = fcntl(fd, F_GETFD) < 0 && errno == EBADF;
      const bool is_inert =
          ::write(fd, &byte, 1) < 0 && errno == EBADF && ::read(fd, &byte, 1) < 0 && errno == EBADF;
      seat.expect(filled ? is_inert : is_unused, fmt::format("descriptor {} is in use", fd));
    }
  });
}

TEST_P(ClosedStandard, ProcessesOfAHostWork) {
  expect_all_work(as_processes(3), GetParam().descriptors);
}

// The test engine.ucx runs this over UCX.
TEST_P(ClosedStandard, ProcessesOfSeveralHostsWork) {
  Layout layout = as_processes(3);
  layout.hosts = {"a", "b", "b"};
  expect_all_work(layout, GetParam().descriptors, std::getenv("NCCL_NET") != nullptr);
}

// The plugin makes its sockets itself.
TEST_P(ClosedStandard, NetworkPluginsGetNoneOfThem) {
  Layout layout = as_processes(2);
  layout.hosts = {"a", "b"};
  layout.environment = {{"NCCL_NET_PLUGIN", plugin_file()}, {"NCCL_NET", "RondoTest"}};
  expect_all_work(layout, GetParam().descriptors, true);
}

INSTANTIATE_TEST_SUITE_P(Descriptors, ClosedStandard,
                         testing::Values(Closed{"Input", {0}}, Closed{"Output", {1}},
                                         Closed{"Error", {2}}, Closed{"All", {0, 1, 2}}),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace rondo::test
