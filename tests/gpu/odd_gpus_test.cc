// SPDX-License-Identifier: Apache-2.0
// Hosts whose GPUs are not eight equal whole ones: MIG instances, several kinds of GPUs, a GPU that
// leaves. Calls work, or one line says what is wrong, with the value and what to do.
#include "tests/gpu/process_bodies.h"
#include "tests/gpu/rank_logs.h"

namespace rondo::test {
namespace {

// The instances of the emulated GPUs, as `nvidia-smi -L` lists them.
std::string instance(int number) {
  return "MIG-726f6e64-6f20-7369-6d74-20677075200" + std::to_string(number);
}
// A process each, which sees one instance: two instances a GPU.
Layout on_instances(std::initializer_list<int> numbers) {
  Layout layout;
  for (const int number : numbers) {
    layout.processes.push_back({0});
    layout.of_process.push_back({{"CUDA_VISIBLE_DEVICES", instance(number)}});
  }
  return layout.under({{"RONDO_SIMT", "mig=2"}});
}

void run_some(const Layout& layout, const RankLogs& logs) {
  Job job = layout.under({{"NCCL_DEBUG_SUBSYS", "INIT,TUNING"}});
  job.create = false;
  run_job(job, [&logs](NcclRank& seat) {
    logs.use(seat.rank);
    seat.join();
    if (seat.comm == nullptr) return;
    run_every_collective(seat, {1, 3001}, {DataType::kUint8, DataType::kFloat32},
                         [](int, int number) { return number % 2 == 0; });
    pass_round_a_ring(seat, {1, 1001});
    seat.leave();
  });
}

// CUDA knows no P2P between instances, not even of one GPU.
TEST(MigInstances, OfOneGpuMeetOnTheHost) {
  const RankLogs logs;
  run_some(on_instances({0, 1}), logs);
  EXPECT_GE(logs.count(0, "messages of rank 0 to rank 1: host"), 1);
  std::string line;
  EXPECT_EQ(logs.count(0, "two MIG instances", &line), 1);
  EXPECT_NE(line.find("ranks 0 and 1 are on two MIG instances of GPU 7fff:01:00.0"), line.npos)
      << line;
  EXPECT_EQ(logs.count(0, "WARN") + logs.count(1, "WARN"), 0) << "nobody can change it";
}

TEST(MigInstances, OfSeveralGpusAreTriedAndNamed) {
  const RankLogs logs;
  run_some(on_instances({0, 2}), logs);
  EXPECT_GE(logs.count(0, "messages of rank 0 to rank 1: host"), 1);
  std::string line;
  EXPECT_EQ(logs.count(0, "cannot map their memory", &line), 1);
  EXPECT_NE(line.find("MIG instances never do"), line.npos) << line;
}

// They share it as they would share a whole GPU.
TEST(MigInstances, ServeSeveralRanks) {
  const RankLogs logs;
  run_some(on_instances({3, 3}), logs);
  EXPECT_EQ(logs.count(0, "two MIG instances"), 0);
  EXPECT_EQ(logs.count(0, "WARN") + logs.count(1, "WARN"), 0);
}

// Two of one kind, one of another: what runs is what all of them can.
TEST(GpusOfTwoKinds, RunWhatBothCan) {
  for (const auto& [variable, value] :
       {std::pair("NCCL_NVLS_ENABLE", "0"), std::pair("NCCL_NVLS_ENABLE", "1"),
        std::pair("NCCL_ALGO", "ring")}) {
    const RankLogs logs;
    run_some(as_processes(3, Gpus::kOneEach, {{"RONDO_SIMT", "kinds=mixed"}, {variable, value}}),
             logs);
    const char* const by_p2p = "messages of rank 0 to rank 1: P2P";
    EXPECT_GE(logs.count(0, by_p2p) + logs.count(1, by_p2p), 1);
  }
}

// The tenth kernel of rank 1 finds no GPU, as after an Xid.
TEST(AGpuThatLeaves, IsNamedWithWhatToDo) {
  Layout layout = as_processes(3, Gpus::kOneEach);
  layout.of_process = {{}, {{"RONDO_SIMT", "lost=10"}}, {}};
  RankProcesses ranks(layout, [](NcclRank& seat) { sum_until_error(seat, 1000); });
  ASSERT_TRUE(ranks.wait_reports());
  for (const char* const part :
       {"CUDA failure: unspecified launch failure (cudaErrorLaunchFailure)",
        "the process has lost GPU 7fff:02:00.0: dmesg says why", "Xid", "restart the job"})
    EXPECT_NE(ranks.text(1).find(part), std::string::npos) << ranks.text(1);
  for (const int other : {0, 2}) {
    EXPECT_NE(ranks.status(other), StatusCode::kSuccess);
    EXPECT_NE(ranks.text(other).find("rank 1"), std::string::npos) << ranks.text(other);
  }
}

}  // namespace
}  // namespace rondo::test
