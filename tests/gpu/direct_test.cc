// SPDX-License-Identifier: Apache-2.0
// Slots between hosts in GPU memory, which a network's adapters read and write directly: over the
// loop network, or over the one that RONDO_TEST_NETWORK names (dmabuf_network.cc).
#include <cstdlib>
#include <string>

#include "tests/gpu/process_bodies.h"
#include "tests/gpu/rank_logs.h"
#include "tests/support/loop/add_loop_network.h"
#include "tests/support/loop/loop_memory.h"

#ifdef RONDO_SIMT
#include "tests/simt/device/table.h"
#endif

namespace rondo::test {
namespace {

constexpr const char* kSends[] = {"sends from host memory", "sends from its GPU's memory"};
constexpr const char* kReceives[] = {"receives into host memory", "receives into its GPU's memory"};

const NamedLayout kLayouts[] = {
    {"two_hosts", {{{0}, {1}}, {"a", "b"}}},
    {"three_hosts", {{{0}, {1}, {2}}, {"a", "b", "c"}}},
    {"two_of_two_threads", {{{0, 1}, {2, 3}}, {"a", "b"}}},
    {"two_and_one", {{{0}, {1}, {2}}, {"a", "a", "b"}}},
};

bool over_loop() { return std::getenv("RONDO_TEST_NETWORK") == nullptr; }

// Checks whether this process has sent anything from GPU memory, and received anything into it.
void expect_moved(bool from, bool into) {
  if (!over_loop()) return;
  EXPECT_EQ(LoopMemory::from_devices().load() > 0, from) << "bytes sent";
  EXPECT_EQ(LoopMemory::into_devices().load() > 0, into) << "bytes received";
}

void sum_and_pass(NcclRank& seat) {
  run_case(seat, {Collective::kAllReduce, DataType::kFloat32, RedOp::kSum, seat.size, 0, 5000, 3},
           {});
  pass_round_a_ring(seat, {1001});
}

// Test adapters are near none of their GPUs.
Environment anywhere(Environment more = {}) {
  for (const auto& [name, value] : {std::pair{"NCCL_NET_GDR_LEVEL", "SYS"},
                                    {"RONDO_GPU_RELAY", "1"},
                                    {"NCCL_BUFFSIZE", "4096"},
                                    {"NCCL_MAX_CTAS", "2"},
                                    {"RONDO_GPU_STAGING", "64K"}})
    more.insert(more.begin(), {name, value});  // later settings override
  return more;
}

class Direct : public testing::TestWithParam<NamedLayout> {
 protected:
  void SetUp() override {
    if (gpus_there() < 4) GTEST_SKIP() << "too few GPUs";
    if (over_loop()) add_loop_network();
  }
  static void run(const NcclBody& body, Environment more = {}) {
    run_job(GetParam().layout.under(anywhere(std::move(more))), body);
  }
};
INSTANTIATE_TEST_SUITE_P(Hosts, Direct, testing::ValuesIn(kLayouts),
                         [](const auto& info) { return std::string(info.param.name); });

TEST_P(Direct, EqualsTheReferenceForOddSizesAndAlignments) {
  run([](NcclRank& seat) {
    run_every_collective(seat, {0, 1, 37, 3001, 9000}, {DataType::kUint8, DataType::kFloat32},
                         [](int, int) { return false; });
    expect_moved(true, true);
  });
}

TEST_P(Direct, MixesMessagesAndCalls) {
  run([](NcclRank& seat) {
    for (int i = 0; i < 3; ++i) sum_and_pass(seat);
  });
}

// What a rank's log reports about its slots, and what has moved. Two ranks on two hosts.
struct Way {
  const char* name;
  Environment environment;
  bool sends, receives;  // through GPU memory
  const char *text_of_sends, *text_of_receives;
};
constexpr const char* kFarther = "at distance SYS from the GPU, and NCCL_NET_GDR_LEVEL allows PHB";
constexpr const char* kUsual = "and NCCL_NET_GDR_LEVEL allows PXB";
constexpr const char* kNever = "NCCL_NET_GDR_LEVEL forbids it";
constexpr const char* kSockets = "Socket moves host memory only";
// nvidia_peermem is missing: an adapter does not know a GPU's address.
constexpr const char* kUnknown = "Bad address";
// Soft-RoCE's error for dmabuf files, in the guest.
constexpr const char* kRefused = "of a dmabuf file cannot be registered with rxe";
constexpr const char* kReadBack = "(dmabuf, read back by the network)";
constexpr const char* kNoFlush =
    "the GPU sees the writes of NICs only after a flush, which it does not have";
const Way kWays[] = {
    {"by_dmabuf", {}, true, true, "(dmabuf)", "(dmabuf)"},
    {"with_flushes",
     {{"RONDO_SIMT", "ordering=none"}},
     true,
     true,
     "(dmabuf)",
     "(dmabuf, with flushes)"},
    {"read_back", {{"RONDO_SIMT", "ordering=none,flushes=0"}}, true, true, "(dmabuf)", kReadBack},
    {"without_any_flush",
     {{"RONDO_SIMT", "ordering=none,flushes=0"}},
     true,
     false,
     "(dmabuf)",
     kNoFlush},
    {"near_ones_alone", {{"NCCL_NET_GDR_LEVEL", "PHB"}}, false, false, kFarther, kFarther},
    {"by_default", {{"NCCL_NET_GDR_LEVEL", ""}}, false, false, kUsual, kUsual},
    {"never", {{"NCCL_NET_GDR_LEVEL", "LOC"}}, false, false, kNever, kNever},
    {"no_reads",
     {{"NCCL_NET_GDR_READ", "0"}},
     false,
     true,
     "NCCL_NET_GDR_READ=0 forbids it",
     "(dmabuf)"},
    {"no_dmabuf", {{"NCCL_DMABUF_ENABLE", "0"}}, false, false, kUnknown, kUnknown},
    {"none_of_the_driver", {{"RONDO_SIMT", "dmabuf=0"}}, false, false, kUnknown, kUnknown},
    {"none_of_soft_roce", {{"RONDO_TEST_DMABUF", "0"}}, false, false, kRefused, kRefused},
    {"over_sockets", {{"NCCL_NET", "Socket"}}, false, false, kSockets, kSockets},
};

class DirectWays : public testing::TestWithParam<Way> {
 protected:
  void SetUp() override {
    if (gpus_there() < 2) GTEST_SKIP() << "too few GPUs";
    if (over_loop()) add_loop_network();
    const Way& way = GetParam();
    if (over_loop() && (way.text_of_sends == kRefused || way.text_of_receives == kReadBack))
      GTEST_SKIP() << "of soft-RoCE: tests/rdma";
    if (!over_loop() && way.text_of_receives == kNoFlush) GTEST_SKIP() << "it reads back";
  }
};
INSTANTIATE_TEST_SUITE_P(By, DirectWays, testing::ValuesIn(kWays),
                         [](const auto& info) { return std::string(info.param.name); });

void expect_line(const RankLogs& logs, int rank, const char* what, const char* text) {
  std::string line;
  EXPECT_EQ(logs.count(rank, what, &line), 1) << what;
  EXPECT_NE(line.find(text), std::string::npos) << line;
}

TEST_P(DirectWays, AreSentAndReceived) {
  const Way& way = GetParam();
  const RankLogs logs;
  Job job = Layout{{{0}, {1}}, {"a", "b"}, anywhere(way.environment)};
  job.create = false;
  run_job(job, [&](NcclRank& seat) {
    logs.use(seat.rank);
    seat.join();
    ASSERT_NE(seat.comm, nullptr);
    sum_and_pass(seat);
    expect_line(logs, seat.rank, kSends[way.sends], way.text_of_sends);
    expect_line(logs, seat.rank, kReceives[way.receives], way.text_of_receives);
    expect_moved(way.sends, way.receives);
#ifdef RONDO_SIMT
    const bool flushes = std::string(way.text_of_receives).find("flushes") != std::string::npos;
    for (const simt::CallCount* one = simt::call_counts(); one != nullptr; one = one->next)
      if (std::string(one->name) == "flush_direct_writes") {
        EXPECT_EQ(one->calls > 0, flushes) << "flushes";
      }
#endif
    seat.leave();
  });
}

}  // namespace
}  // namespace rondo::test
