// SPDX-License-Identifier: Apache-2.0
// Ranks on GPUs of several hosts (processes of this machine with different NCCL_HOSTID) whose calls
// run as kernels, over connections that a network proxy forwards between hosts.
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "tests/gpu/cliques.h"
#include "tests/gpu/process_bodies.h"

namespace rondo::test {
namespace {

const NamedLayout kInternodeLayouts[] = {
    {"two_hosts", {{{0}, {1}}, {"a", "b"}}},
    {"three_hosts", {{{0}, {1}, {2}}, {"a", "b", "c"}}},
    {"two_of_two_processes", {{{0}, {1}, {2}, {3}}, {"a", "a", "b", "b"}}},
    {"two_of_two_threads", {{{0, 1}, {2, 3}}, {"a", "b"}}},
    {"three_of_two", {{{0, 1}, {2}, {3}, {4, 5}}, {"a", "b", "b", "c"}}},
    {"taking_turns", {{{0}, {1}, {2}, {3}}, {"a", "b", "a", "b"}}},
    {"joined_by_nvlink", in_cliques({{{0, 1}, {2}, {3}}, {"a", "b", "b"}}, {1, 1, 1})},
};

// Runs as kernels wherever possible; few channels and small slots, so that all are reused often.
Environment by_kernels(Environment more = {}) {
  more.emplace_back("RONDO_GPU_RELAY", "1");
  more.emplace_back("NCCL_BUFFSIZE", "4096");
  more.emplace_back("NCCL_MAX_CTAS", "2");
  more.emplace_back("RONDO_GPU_STAGING", "64K");
  return more;
}

class Internode : public testing::TestWithParam<NamedLayout> {
 protected:
  void run(const NcclBody& body, Environment more = {}) const {
    run_job(GetParam().layout.under(by_kernels(std::move(more))), body);
  }
  void SetUp() override {
    if (gpus_there() < GetParam().layout.devices()) GTEST_SKIP() << "too few GPUs";
  }
};
INSTANTIATE_TEST_SUITE_P(Hosts, Internode, testing::ValuesIn(kInternodeLayouts),
                         [](const auto& info) { return std::string(info.param.name); });

TEST_P(Internode, EqualsTheReferenceForOddSizesAndAlignments) {
  for (const char* p2p : {"p2p=all", "p2p=none"})
    run(
        [](NcclRank& seat) {
          run_every_collective(seat, {0, 1, 37, 3001, 9000},
                               {DataType::kUint8, DataType::kFloat64, DataType::kFloat32},
                               [](int, int number) { return number % 3 == 0; });
        },
        {{"RONDO_SIMT", p2p}});
}

TEST_P(Internode, TakesRingsAndTrees) {
  for (const char* algorithm : {"ring", "tree"})
    run(
        [](NcclRank& seat) {
          for (const Collective which :
               {Collective::kAllReduce, Collective::kBroadcast, Collective::kReduce})
            for (const std::size_t count : {1, 5000, 20'000}) {
              run_case(seat,
                       {which, DataType::kInt32, RedOp::kSum, seat.size, seat.size - 1, count, 7},
                       {count % 2 == 0, 0, false});
              if (testing::Test::HasFatalFailure()) return;
            }
        },
        {{"NCCL_ALGO", algorithm}});
}

// x += the sum of all ranks' x, by graphs and plain calls on two streams, with calls that kernels
// run and calls that hosts run.
TEST_P(Internode, ReplaysGraphsAmongPlainCalls) {
  run(
      [](NcclRank& seat) {
        constexpr std::size_t kLarge = 3000, kSmall = 300;
        DeviceBuffer buffer(kLarge * sizeof(std::int64_t), 0);
        Bytes ones(kLarge * sizeof(std::int64_t));
        for (std::size_t i = 0; i < kLarge; ++i) ones[i * sizeof(std::int64_t)] = std::byte{1};
        buffer.put(ones, 0, seat.stream);
        GpuStream other = nullptr;
        GPU_OK(gpu_api()->create_stream(&other, 0));
        const auto call = [&](GpuStream stream, std::size_t count) {
          NCCL_OK(ncclAllReduce(buffer.data(), buffer.data(), count, ncclInt64, ncclSum, seat.comm,
                                stream));
        };
        void* graph = nullptr;
        GPU_OK(gpu_api()->begin_capture(seat.stream, GpuCaptureMode::kThreadLocal));
        call(seat.stream, kLarge);
        call(seat.stream, kSmall);
        GPU_OK(gpu_api()->end_capture(seat.stream, &graph));
        for (int i = 0; i < 4; ++i) {
          GPU_OK(gpu_api()->launch_graph(graph, seat.stream));
          call(other, kLarge);
        }
        GPU_OK(gpu_api()->synchronize_stream(other));
        buffer.get(seat.stream);
        std::int64_t large = 1, small = 1;
        for (int i = 0; i < 8; ++i) large *= seat.size;
        for (int i = 0; i < 12; ++i) small *= seat.size;
        for (std::size_t i = 0; i < kLarge; ++i) {
          std::int64_t got = 0;
          std::memcpy(&got, buffer.host() + i * sizeof(got), sizeof(got));
          ASSERT_EQ(got, i < kSmall ? small : large) << "element " << i;
        }
        GPU_OK(gpu_api()->destroy_graph(graph));
        GPU_OK(gpu_api()->destroy_stream(other));
      },
      {{"RONDO_GPU_RELAY", "10000"}});
}

TEST_P(Internode, KeepsTheOrderOfCallsOnSeveralStreams) { run(call_on_several_streams); }
TEST_P(Internode, KeepsTheOrderOfStreamsOfEachThread) { run(sum_on_per_thread_streams); }

TEST_P(Internode, MixesMessagesAndCalls) {
  run([](NcclRank& seat) {
    for (int i = 0; i < 3; ++i) {
      run_case(seat,
               {Collective::kAllReduce, DataType::kFloat32, RedOp::kSum, seat.size, 0, 5000, 3},
               {});
      pass_round_a_ring(seat, {1001});
    }
  });
}

// On three hosts.
TEST(InternodeCalls, TakeEveryTypeAndOperation) {
  if (gpus_there() < 3) GTEST_SKIP() << "too few GPUs";
  run_job(Layout{{{0}, {1}, {2}}, {"a", "b", "c"}, by_kernels()}, [](NcclRank& seat) {
    reduce_every_type_and_operation(seat, {Collective::kAllReduce}, 300);
    scale_by_factors_on_the_device(seat);
  });
}

// Other orders of fibers, streams and queues.
TEST(InternodeCalls, EqualTheReferenceForOtherSeeds) {
  if (gpus_there() < 4) GTEST_SKIP() << "too few GPUs";
  for (int seed = 1; seed <= 12; ++seed)
    run_job(Layout{{{0, 1}, {2}, {3}},
                   {"a", "b", "b"},
                   by_kernels({{"RONDO_SIMT_SEED", std::to_string(seed)},
                               {"RONDO_SIMT", seed % 2 == 0 ? "p2p=none" : "p2p=all"}})},
            [](NcclRank& seat) {
              run_every_collective(seat, {700, 2500}, {DataType::kInt32},
                                   [](int, int) { return false; });
            });
}

// The first kernel launched loses its GPU, which shows which ranks launch one.
TEST(InternodeCalls, AreTheHostsWhereTheyAreSmallOrMayNotBeKernels) {
  if (gpus_there() < 2) GTEST_SKIP() << "too few GPUs";
  struct Row {
    const char* variable;
    const char* value;
    bool kernels;
  };
  const Row rows[] = {{"RONDO_GPU_RELAY", "4001", false},
                      {"NCCL_PROTO", "ll", false},
                      {"NCCL_P2P_DISABLE", "1", true}};
  for (const Row& row : rows) {
    run_job(
        Layout{{{0}, {1}},
               {"a", "b"},
               {{"RONDO_SIMT", "lost=1"}, {"RONDO_GPU_RELAY", "4000"}, {row.variable, row.value}}},
        [&](NcclRank& seat) {
          DeviceBuffer buffer(4000, 0);
          const ncclResult_t called = ncclAllReduce(buffer.data(), buffer.data(), 1000, ncclFloat32,
                                                    ncclSum, seat.comm, seat.stream);
          const GpuError ended = gpu_api()->synchronize_stream(seat.stream);
          const bool lost = called != ncclSuccess || ended != kGpuSuccess;
          EXPECT_EQ(lost, row.kernels) << row.variable << "=" << row.value;
          if (!lost) return;
          (void)ncclCommAbort(seat.comm);
          seat.comm = nullptr;
        });
  }
}

struct Census {
  int threads = 0, listening = 0;
};

Census census_of_this_process() {
  Census found;
  for (const auto& one : std::filesystem::directory_iterator("/proc/self/task"))
    found.threads += one.is_directory() ? 1 : 0;
  for (const auto& one : std::filesystem::directory_iterator("/proc/self/fd")) {
    const int fd = std::stoi(one.path().filename().string());
    int listens = 0, domain = 0;
    socklen_t size = sizeof(int);
    if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) != 0 || listens == 0) continue;
    size = sizeof(int);
    getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size);
    found.listening += domain == AF_INET ? 1 : 0;
  }
  return found;
}

int lines_with(const std::string& path, std::string_view text) {
  std::ifstream log(path);
  int found = 0;
  for (std::string line; std::getline(log, line);)
    found += line.find(text) != std::string::npos ? 1 : 0;
  return found;
}

// A rank that spans hosts has one thread (its proxy) and two networks (the links of its host
// engine, the slots of its kernels); one more listener is for its children. It joins one session.
TEST(InternodeAlone, ARankHasOneThreadTwoNetworksAndOneBootstrap) {
  if (gpus_there() < 2) GTEST_SKIP() << "too few GPUs";
  const std::string log = testing::TempDir() + "rondo_internode_census.%p.log";
  const Layout layout{{{0}, {1}}, {"a", "b"}};
  const auto body = [](NcclRank& seat) {
    const std::string own =
        testing::TempDir() + "rondo_internode_census." + std::to_string(getpid()) + ".log";
    const int bootstraps = lines_with(own, " hosts, ready");
    EXPECT_EQ(bootstraps, 1);
    const Census before = census_of_this_process();
    ncclComm_t child = nullptr;
    NCCL_OK(ncclCommSplit(seat.comm, 0, seat.rank, &child, nullptr));
    const Census after = census_of_this_process();
    EXPECT_EQ(lines_with(own, " hosts, ready"), bootstraps + 1);
    EXPECT_EQ(lines_with(own, "run as kernels"), 2) << "the case of a proxy with all its tasks";
    EXPECT_EQ(after.threads - before.threads, 1);
    EXPECT_EQ(after.listening - before.listening, 2);
    NCCL_OK(ncclCommDestroy(child));
    std::filesystem::remove(own);
  };
  run_job(layout.under(by_kernels({{"NCCL_DEBUG", "INFO"},
                                   {"NCCL_DEBUG_FILE", log},
                                   {"NCCL_SOCKET_IFNAME", "lo"},
                                   {"NCCL_SOCKET_FAMILY", "AF_INET"}})),
          body);
}

}  // namespace
}  // namespace rondo::test
