// SPDX-License-Identifier: Apache-2.0
// Processes that do not see all GPUs of their host (CUDA_VISIBLE_DEVICES), as Slurm with
// --gpus-per-task, Ray and others start them. Memory of a GPU that a process does not see can be
// mapped there, so such pairs use P2P where it works.
#include "tests/gpu/process_bodies.h"
#include "tests/gpu/rank_logs.h"

namespace rondo::test {
namespace {

constexpr const char* kUnmapped = "cannot map their memory";
constexpr const char* kLost = "does not arrive, though the driver offers P2P";

Environment sees(const char* visible) { return {{"CUDA_VISIBLE_DEVICES", visible}}; }

// Device numbers are those that the process gives to what it sees.
const NamedLayout kViews[] = {
    {"all_visible", {{{0}, {1}, {2}}}},
    {"one_each", {{{0}, {0}, {0}}, {}, {}, {sees("0"), sees("1"), sees("2")}}},
    {"mixed", {{{0}, {1}, {2}}, {}, {}, {sees("0"), sees("0,1"), {}}}},
    {"in_another_order", {{{1}, {0}, {0}}, {}, {}, {sees("5,3"), sees("4,0"), sees("2")}}},
    {"uuids",
     {{{0}, {1}, {0}},
      {},
      {},
      {sees("GPU-726f6e64-6f20-7369-6d74-206770752000"),
       sees("GPU-726f6e64-6f20-7369-6d74-206770752007,GPU-726f6e64-6f20-7369-6d74-206770752001"),
       sees("GPU-726f6e64-6f20-7369-6d74-206770752002,GPU-726f6e64")}}},
    {"before_a_bad_entry", {{{0}, {0}, {0}}, {}, {}, {sees("0,9,1"), sees("1,-1"), sees("2,x")}}},
    {"hosts",
     {{{0}, {0}, {0}},
      {"a", "a", "b"},
      {{"RONDO_GPU_RELAY", "1"}},
      {sees("0"), sees("1"), sees("2")}}},
};

void replay_a_sum(NcclRank& seat) {
  constexpr std::size_t kCount = 5'000;
  DeviceBuffer buffer(kCount * sizeof(std::int32_t), 0);
  Bytes ones(kCount * sizeof(std::int32_t));
  for (std::size_t i = 0; i < kCount; ++i) ones[i * sizeof(std::int32_t)] = std::byte{1};
  buffer.put(ones, 0, seat.stream);
  void* graph = nullptr;
  GPU_OK(gpu_api()->begin_capture(seat.stream, GpuCaptureMode::kThreadLocal));
  NCCL_OK(ncclAllReduce(buffer.data(), buffer.data(), kCount, ncclInt32, ncclSum, seat.comm,
                        seat.stream));
  GPU_OK(gpu_api()->end_capture(seat.stream, &graph));
  for (int replay = 0; replay < 2; ++replay) GPU_OK(gpu_api()->launch_graph(graph, seat.stream));
  buffer.get(seat.stream);
  for (std::size_t i = 0; i < kCount; ++i) {
    std::int32_t sum = 0;
    std::memcpy(&sum, buffer.host() + i * sizeof(sum), sizeof(sum));
    ASSERT_EQ(sum, seat.size * seat.size) << "element " << i;
  }
  GPU_OK(gpu_api()->destroy_graph(graph));
}

// Collectives, messages and graphs give the right data; returns with the ranks' logs complete.
void run_all(const Layout& layout, const RankLogs& logs) {
  Job job = layout.under({{"NCCL_DEBUG_SUBSYS", "INIT,TUNING"}});
  job.create = false;
  run_job(job, [&logs](NcclRank& seat) {
    logs.use(seat.rank);
    seat.join();
    if (seat.comm == nullptr) return;
    run_every_collective(seat, {1, 3001}, {DataType::kUint8, DataType::kFloat32},
                         [](int, int number) { return number % 2 == 0; });
    pass_round_a_ring(seat, {1, 1001});
    replay_a_sum(seat);
    seat.leave();
  });
}

int lines_of_all(const RankLogs& logs, int ranks, const std::string& what) {
  int lines = 0;
  for (int rank = 0; rank < ranks; ++rank) lines += logs.count(rank, what);
  return lines;
}

class HiddenGpus : public testing::TestWithParam<NamedLayout> {
 protected:
  int lines(const std::string& what) const {
    return lines_of_all(logs_, GetParam().layout.ranks(), what);
  }
  void run(const char* p2p) const {
    run_all(GetParam().layout.under({{"RONDO_SIMT", std::string("p2p=") + p2p}}), logs_);
  }
  // Where one process of a pair sees both GPUs, the driver says that they have no P2P.
  bool is_tried() const {
    return !GetParam().layout.of_process.empty() && std::string(GetParam().name) != "mixed";
  }
  bool is_one_host() const { return GetParam().layout.hosts.empty(); }

  const RankLogs logs_;
};
INSTANTIATE_TEST_SUITE_P(Views, HiddenGpus, testing::ValuesIn(kViews),
                         [](const auto& info) { return std::string(info.param.name); });

TEST_P(HiddenGpus, UseP2pWhereItWorks) {
  run("all");
  EXPECT_GE(lines("messages of rank 0 to rank 1: P2P"), 1);
  EXPECT_EQ(lines("messages of rank 0 to rank 1: host"), 0);
  if (is_one_host()) {
    EXPECT_GE(lines("oneshot"), 1) << "LL push";
  }
  EXPECT_EQ(lines("WARN"), 0);
}

TEST_P(HiddenGpus, AreNamedIfTheTryFails) {
  run("none");
  EXPECT_GE(lines("messages of rank 0 to rank 1: host"), 1);
  EXPECT_EQ(lines("messages of rank 0 to rank 1: P2P"), 0);
  std::string line;
  EXPECT_EQ(logs_.count(0, kUnmapped, &line), is_tried() ? 1 : 0);
  if (is_tried()) {
    EXPECT_NE(line.find(is_one_host() ? "GPUs of ranks 1, 2" : "GPUs of rank 1"), line.npos)
        << line;
  }
}

TEST_P(HiddenGpus, AreCheckedAsOthersAre) {
  run("copies");
  EXPECT_GE(lines("messages of rank 0 to rank 1: host"), 1);
  EXPECT_GE(lines(kLost), 1);
  EXPECT_EQ(lines(kUnmapped), 0);
}

// NCCL_P2P_DISABLE and NCCL_P2P_LEVEL hold for them, too: by the hosts' topology, not by what the
// process sees. GPUs without a file of it are SYS apart.
TEST(HiddenGpusLimits, AreThoseOfOthers) {
  for (const auto& [variable, value] :
       {std::pair("NCCL_P2P_DISABLE", "1"), std::pair("NCCL_P2P_LEVEL", "NVL")}) {
    const RankLogs logs;
    run_all(kViews[1].layout.under({{variable, value}}), logs);
    EXPECT_GE(lines_of_all(logs, 3, "messages of rank 0 to rank 1: host"), 1) << variable;
    EXPECT_EQ(lines_of_all(logs, 3, "WARN"), 0) << variable;
  }
}

TEST(HiddenGpusLimits, KnowTheDistanceOfWhatAProcessDoesNotSee) {
  const std::string file = std::string(RONDO_FIXTURES_DIR) + "/dgx-h100.xml";
  const Environment topology{
      {"NCCL_TOPO_FILE", file}, {"RONDO_SIMT", "topology=" + file}, {"NCCL_P2P_LEVEL", "NVL"}};
  const RankLogs logs;
  run_all(kViews[1].layout.under(topology), logs);
  EXPECT_GE(lines_of_all(logs, 3, "messages of rank 0 to rank 1: P2P"), 1);
  EXPECT_EQ(lines_of_all(logs, 3, "WARN"), 0);
}

// Eight processes with a GPU each: what they see of the GPUs, and what P2P is worth.
enum class View { kAllVisible, kOneEach, kMixed };
enum class P2p { kWorks, kNone, kLies };
constexpr View kEveryView[] = {View::kAllVisible, View::kOneEach, View::kMixed};
constexpr P2p kEveryP2p[] = {P2p::kWorks, P2p::kNone, P2p::kLies};
constexpr const char* kNamesOfViews[] = {"all_visible", "one_each", "mixed"};
constexpr const char* kNamesOfP2p[] = {"p2p", "no_p2p", "p2p_that_lies"};
constexpr const char* kSettingsOfP2p[] = {"p2p=all", "p2p=none", "p2p=copies"};

Layout eight_of(View view) {
  Layout layout;
  for (int gpu = 0; gpu < 8; ++gpu) {
    const bool sees_one = view == View::kOneEach || (view == View::kMixed && gpu % 3 != 1);
    layout.processes.push_back({sees_one ? 0 : gpu});
    layout.of_process.push_back(sees_one ? sees(std::to_string(gpu).c_str()) : Environment{});
  }
  return layout;
}

using EightCase = std::tuple<View, P2p>;
class EightGpus : public testing::TestWithParam<EightCase> {};
INSTANTIATE_TEST_SUITE_P(
    Each, EightGpus, testing::Combine(testing::ValuesIn(kEveryView), testing::ValuesIn(kEveryP2p)),
    [](const auto& info) {
      return std::string(kNamesOfViews[static_cast<int>(std::get<View>(info.param))]) + "_" +
             kNamesOfP2p[static_cast<int>(std::get<P2p>(info.param))];
    });

// Collectives, messages, graphs. Ranks 0 and 1 of the mixed view do not both see only their own.
TEST_P(EightGpus, RunEveryCallByTheBestWayThatWorks) {
  const auto [view, p2p] = GetParam();
  const Environment setting{{"RONDO_SIMT", kSettingsOfP2p[static_cast<int>(p2p)]}};
  const RankLogs logs;
  run_all(eight_of(view).under(setting), logs);
  const auto lines = [&](const char* what) { return lines_of_all(logs, 8, what); };
  const bool works = p2p == P2p::kWorks;
  EXPECT_EQ(lines("messages of rank 7 to rank 0: P2P") >= 1, works);
  EXPECT_EQ(lines("messages of rank 7 to rank 0: host") >= 1, !works);
  EXPECT_EQ(lines("oneshot") >= 1, works) << "LL push";
  EXPECT_EQ(lines(kLost) >= 1, p2p == P2p::kLies);
  // Where no driver can be asked: one line for each process.
  const int tried = view == View::kOneEach ? 8 : 0;
  if (view != View::kMixed) {
    EXPECT_EQ(lines(kUnmapped), p2p == P2p::kNone ? tried : 0);
  }
  if (works) {
    EXPECT_EQ(lines("WARN"), 0);
  }
}

// CUDA shows no GPU for a list that names one twice. Its rank would be on host memory, the others
// on GPUs: the error says so, and the log of that process why.
TEST(HiddenGpusByMistake, AreExplained) {
  for (const char* const list : {"1,1", "GPU-726f", "x"}) {
    const RankLogs logs;
    Job job = Layout{{{0}, {kHostMemory}}, {}, {}, {sees("0"), sees(list)}};
    job.create = false;
    RankProcesses ranks(job, [&](NcclRank& seat) {
      logs.use(seat.rank);
      ASSERT_NO_FATAL_FAILURE(seat.prepare());
      ncclComm_t comm = nullptr;
      const ncclResult_t made = ncclCommInitRank(&comm, seat.size, seat.id(), seat.rank);
      seat.report(Error{static_cast<StatusCode>(made), ncclGetLastError(nullptr)});
    });
    ASSERT_TRUE(ranks.wait_reports());
    for (int rank = 0; rank < 2; ++rank) {
      EXPECT_NE(ranks.status(rank), StatusCode::kSuccess);
      EXPECT_NE(ranks.text(rank).find("rank 1 lives on the host"), std::string::npos)
          << ranks.text(rank);
    }
    std::string line;
    EXPECT_EQ(logs.count(1, "CUDA_VISIBLE_DEVICES is", &line), 1);
    EXPECT_NE(line.find(std::string("CUDA_VISIBLE_DEVICES is '") + list + "'"), line.npos) << line;
    EXPECT_EQ(logs.count(0, "CUDA_VISIBLE_DEVICES is"), 0);
  }
}

// Who hides all of them means it.
TEST(HiddenGpusByIntent, GetNoWarning) {
  for (const char* const list : {"", "-1", "NoDevFiles"}) {
    const RankLogs logs;
    Job job = as_processes(2, Gpus::kNone, sees(list));
    job.create = false;
    run_job(job, [&logs](NcclRank& seat) {
      logs.use(seat.rank);
      seat.join();
      std::int32_t one = 1;
      NCCL_OK(ncclAllReduce(&one, &one, 1, ncclInt32, ncclSum, seat.comm, nullptr));
      EXPECT_EQ(one, 2);
      seat.leave();
    });
    EXPECT_EQ(lines_of_all(logs, 2, "WARN"), 0) << list;
  }
}

}  // namespace
}  // namespace rondo::test
