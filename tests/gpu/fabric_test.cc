// SPDX-License-Identifier: Apache-2.0
// Ranks on GPUs of several hosts in NVLink cliques: rings, trees and messages between the hosts of
// a clique are on each other's memory, by fabric handles, and the rest is as between other hosts.
// Hosts are processes of this machine with different NCCL_HOSTID.
#include <signal.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <set>

#include "tests/gpu/cliques.h"
#include "tests/gpu/process_bodies.h"
#include "tests/gpu/rank_logs.h"

#ifdef RONDO_SIMT
#include "tests/simt/device/table.h"
#endif

namespace rondo::test {
namespace {

// Hosts of one machine with real GPUs have no fabric.
bool has_emulated_gpus([[maybe_unused]] int number) {
#ifdef RONDO_SIMT
  return gpus_there() >= number;
#else
  return false;
#endif
}

struct Joined {
  const char* name;
  Layout layout;
  std::vector<int> cliques;  // by process; 0: it has no fabric handles
  bool all;                  // one clique
};
const Joined kJoined[] = {
    {"two_hosts", {{{0}, {1}}, {"a", "b"}}, {1, 1}, true},
    {"two_of_two", {{{0, 1}, {2}, {3}}, {"a", "b", "b"}}, {1, 1, 1}, true},
    {"two_of_four", {{{0, 1, 2, 3}, {4, 5}, {6}, {7}}, {"a", "b", "b", "b"}}, {1, 1, 1, 1}, true},
    {"three_hosts", {{{0}, {1}, {2}}, {"a", "b", "c"}}, {1, 1, 1}, true},
    {"three_of_two", {{{0, 1}, {2}, {3}, {4, 5}}, {"a", "b", "b", "c"}}, {1, 1, 1, 1}, true},
    {"taking_turns", {{{0}, {1}, {2}, {3}}, {"a", "b", "a", "b"}}, {1, 1, 1, 1}, true},
    {"one_without_fabric", {{{0}, {1}, {2}}, {"a", "b", "c"}}, {1, 1, 0}, false},
    {"two_cliques", {{{0, 1}, {2}, {3}, {4}}, {"a", "b", "c", "d"}}, {1, 1, 2, 2}, false},
    {"crosswise", {{{0}, {1}, {2}, {3}}, {"a", "a", "b", "b"}}, {1, 2, 1, 2}, false},
};

Environment few_small_slots(Environment more = {}) {
  more.emplace_back("NCCL_BUFFSIZE", "4096");
  more.emplace_back("NCCL_MAX_CTAS", "2");
  more.emplace_back("RONDO_GPU_STAGING", "64K");
  return more;
}

// The logs of all processes of a job.
class JobLogs {
 public:
  Environment variables() const {
    return {{"NCCL_DEBUG", "INFO"},
            {"NCCL_DEBUG_SUBSYS", "ALL"},
            {"NCCL_DEBUG_FILE", logs_.file(0) + ".%p"}};
  }
  std::vector<std::string> lines_with(const std::string& what) const {
    std::vector<std::string> found;
    const auto folder = std::filesystem::path(logs_.file(0)).parent_path();
    for (const auto& file : std::filesystem::directory_iterator(folder)) {
      std::ifstream in(file.path());
      for (std::string line; std::getline(in, line);)
        if (line.find(what) != std::string::npos) found.push_back(line);
    }
    return found;
  }
  // Number of ranks whose kernels sent bytes over the network.
  int senders() const {
    int found = 0;
    for (const std::string& line : lines_with("bytes of its kernels to other hosts"))
      found += line.find(" sent 0 bytes") == std::string::npos ? 1 : 0;
    return found;
  }

 private:
  RankLogs logs_;
};

// Of the pairs that have exchanged messages: the number that used this way. Both ranks of a pair
// log it.
std::size_t pairs_by(const JobLogs& logs, const std::string& way) {
  std::set<std::string> pairs;
  for (const std::string& line : logs.lines_with("messages of rank ")) {
    const std::size_t at = line.find("messages of rank "), end = line.find(": ", at);
    if (line.compare(end + 2, way.size(), way) == 0) pairs.insert(line.substr(at, end - at));
  }
  return pairs.size();
}

std::uint64_t launches() {
#ifdef RONDO_SIMT
  return simt::launch_counts().launches.load();
#else
  return 0;
#endif
}

// By kernels: the hosts could run them, too.
void run_each(NcclRank& seat, std::initializer_list<Collective> collectives) {
  for (const Collective which : collectives)
    for (const std::size_t count : {1, 700, 20'000}) {
      const std::uint64_t before = launches();
      run_case(seat, {which, DataType::kFloat32, RedOp::kSum, seat.size, seat.size - 1, count, 7},
               {which != Collective::kAllToAll && count % 2 == 0, 0, false});
      EXPECT_GT(launches(), before) << name(which) << " of " << count;
      if (testing::Test::HasFatalFailure()) return;
    }
}
void run_all_with_trees(NcclRank& seat) {
  run_each(seat, {Collective::kAllReduce, Collective::kBroadcast, Collective::kReduce});
}
void run_all_with_rings(NcclRank& seat) {
  run_all_with_trees(seat);
  run_each(seat, {Collective::kAllGather, Collective::kReduceScatter});
}

// Messages of several sizes from each rank to each of its peers, in one group.
void send_to_each(NcclRank& seat, const std::function<bool(int)>& is_peer) {
  const auto value = [](int from, int to, std::size_t i) {
    return static_cast<std::byte>(from * 31 + to * 7 + static_cast<int>(i % 249));
  };
  for (const std::size_t bytes : {1, 333, 70'001}) {
    std::vector<std::unique_ptr<DeviceBuffer>> in, out;
    for (int peer = 0; peer < seat.size; ++peer) {
      in.push_back(std::make_unique<DeviceBuffer>(bytes, static_cast<std::size_t>(peer % 3)));
      out.push_back(std::make_unique<DeviceBuffer>(bytes, 5));
      Bytes content(bytes);
      for (std::size_t i = 0; i < bytes; ++i) content[i] = value(seat.rank, peer, i);
      in.back()->put(content, 0, seat.stream);
      out.back()->put({}, 0, seat.stream);
    }
    NCCL_OK(ncclGroupStart());
    for (int peer = 0; peer < seat.size; ++peer) {
      if (peer == seat.rank || !is_peer(peer)) continue;
      NCCL_OK(ncclSend(in[static_cast<std::size_t>(peer)]->data(), bytes, ncclUint8, peer,
                       seat.comm, seat.stream));
      NCCL_OK(ncclRecv(out[static_cast<std::size_t>(peer)]->data(), bytes, ncclUint8, peer,
                       seat.comm, seat.stream));
    }
    NCCL_OK(ncclGroupEnd());
    for (int peer = 0; peer < seat.size; ++peer) {
      if (peer == seat.rank || !is_peer(peer)) continue;
      DeviceBuffer& got = *out[static_cast<std::size_t>(peer)];
      got.get(seat.stream);
      ASSERT_TRUE(got.guards_intact()) << bytes << " bytes from " << peer;
      for (std::size_t i = 0; i < bytes; ++i)
        ASSERT_EQ(got.host()[i], value(peer, seat.rank, i)) << "byte " << i << " from " << peer;
    }
  }
}

class Fabric : public testing::TestWithParam<Joined> {
 protected:
  // Of the process of each rank.
  template <class T>
  static std::vector<T> of_ranks(const std::vector<T>& of_process) {
    std::vector<T> found;
    for (std::size_t p = 0; p < of_process.size(); ++p)
      found.insert(found.end(), GetParam().layout.processes[p].size(), of_process[p]);
    return found;
  }
  static Layout layout(const Environment& more = {}, const std::string& simt = "") {
    const std::size_t processes = GetParam().cliques.size();
    return in_cliques(GetParam().layout, GetParam().cliques,
                      simt.empty() ? std::vector<std::string>()
                                   : std::vector<std::string>(processes, simt))
        .under(few_small_slots(more));
  }
  void SetUp() override {
    if (!has_emulated_gpus(GetParam().layout.devices())) GTEST_SKIP() << "too few emulated GPUs";
  }
};
INSTANTIATE_TEST_SUITE_P(Hosts, Fabric, testing::ValuesIn(kJoined),
                         [](const auto& info) { return std::string(info.param.name); });

TEST_P(Fabric, GivesTheReferencesResults) {
  for (const char* p2p : {"p2p=all", "p2p=none"})
    run_job(layout({}, p2p), [](NcclRank& seat) {
      run_every_collective(seat, {0, 1, 37, 3001, 9000},
                           {DataType::kUint8, DataType::kFloat64, DataType::kFloat32},
                           [](int, int number) { return number % 3 == 0; });
    });
}

TEST_P(Fabric, TakesRingsAndTreesOfEveryProtocolAndNoNetwork) {
  for (const char* algorithm : {"ring", "tree"})
    for (const char* protocol : {"simple", "ll", "ll128"}) {
      const bool is_simple = std::string(protocol) == "simple";
      if (!GetParam().all && !is_simple) continue;
      const JobLogs logs;
      Environment more = logs.variables();
      more.insert(more.end(), {{"NCCL_ALGO", algorithm}, {"NCCL_PROTO", protocol}});
      run_job(layout(more, "lines=whole"),
              algorithm == std::string("tree") ? run_all_with_trees : run_all_with_rings);
      EXPECT_EQ(logs.lines_with("NVLink joins ").size(), 1u);
      EXPECT_EQ(logs.lines_with("bytes of its kernels to other hosts").size(),
                static_cast<std::size_t>(GetParam().layout.ranks()));
      EXPECT_EQ(logs.senders() == 0, GetParam().all) << algorithm << ", " << protocol;
    }
}

// Between all ranks, and only between those of one clique.
TEST_P(Fabric, TakesMessagesWithinACliqueAndNoNetwork) {
  const std::vector<int> cliques = of_ranks(GetParam().cliques);
  const std::vector<std::string> hosts = of_ranks(GetParam().layout.hosts);
  const std::size_t n = cliques.size();
  std::size_t joined = 0, across = 0;
  for (std::size_t a = 0; a < n; ++a)
    for (std::size_t b = 0; b < n; ++b) {
      joined += hosts[a] != hosts[b] && cliques[a] == cliques[b] ? 1 : 0;
      across += hosts[a] != hosts[b] && cliques[a] != cliques[b] ? 1 : 0;
    }
  for (const bool all : {false, true}) {
    const JobLogs logs;
    run_job(layout(logs.variables()), [&](NcclRank& seat) {
      const auto is_peer = [&](int peer) {
        return all || cliques[static_cast<std::size_t>(peer)] ==
                          cliques[static_cast<std::size_t>(seat.rank)];
      };
      send_to_each(seat, is_peer);
      if (all) run_each(seat, {Collective::kAllToAll, Collective::kGather, Collective::kScatter});
    });
    EXPECT_EQ(pairs_by(logs, "NVLink,"), joined);
    EXPECT_EQ(pairs_by(logs, "network,"), all ? across : 0);
    EXPECT_EQ(logs.lines_with("bytes of its kernels to other hosts").size(), n);
    EXPECT_EQ(logs.senders() == 0, GetParam().all || !all);
  }
}

TEST_P(Fabric, KeepsTheOrderOfStreamsMessagesAndCalls) {
  run_job(layout(), [](NcclRank& seat) {
    call_on_several_streams(seat);
    for (int i = 0; i < 3; ++i) {
      run_case(seat,
               {Collective::kAllReduce, DataType::kFloat32, RedOp::kSum, seat.size, 0, 5000, 3},
               {});
      pass_round_a_ring(seat, {1001});
    }
  });
}

// Weak memory, other orders of fibers, streams and queues.
TEST(FabricCalls, GiveTheReferencesResultsForOtherSeedsAndWeakMemory) {
  if (!has_emulated_gpus(4)) GTEST_SKIP() << "too few emulated GPUs";
  for (int seed = 1; seed <= 6; ++seed)
    run_job(in_cliques({{{0, 1}, {2}, {3}}, {"a", "b", "b"}}, {1, 1, 1},
                       std::vector<std::string>(3, seed % 2 == 0 ? "mode=weak" : "mode=seed"))
                .under(few_small_slots({{"RONDO_SIMT_SEED", std::to_string(seed)}})),
            run_all_with_rings);
}

// A child finds its cliques itself.
TEST(FabricCalls, RunInCommunicatorsThatAreSplit) {
  if (!has_emulated_gpus(4)) GTEST_SKIP() << "too few emulated GPUs";
  const JobLogs logs;
  run_job(in_cliques({{{0}, {1}, {2}, {3}}, {"a", "a", "b", "c"}}, {1, 1, 1, 2})
              .under(few_small_slots(logs.variables())),
          [](NcclRank& seat) {
            ncclComm_t child = nullptr;
            NCCL_OK(ncclCommSplit(seat.comm, 0, seat.rank, &child, nullptr));
            std::swap(child, seat.comm);
            run_all_with_rings(seat);
            std::swap(child, seat.comm);
            NCCL_OK(ncclCommDestroy(child));
          });
  EXPECT_EQ(logs.lines_with("NVLink joins 3 of 4 ranks").size(), 2u);
}

// More devices than a machine usually has.
TEST(FabricCalls, TakeMessagesBetweenThreeHostsOfFour) {
  constexpr int kRanks = 12;
  if (!has_emulated_gpus(1)) GTEST_SKIP() << "no emulated GPUs";
  const JobLogs logs;
  Environment more = logs.variables();
  more.emplace_back("RONDO_SIMT_DEVICES", std::to_string(kRanks));
  run_job(in_cliques({{{0, 1, 2, 3}, {4, 5, 6, 7}, {8, 9, 10, 11}}, {"a", "b", "c"}}, {1, 1, 1})
              .under(few_small_slots(more)),
          [](NcclRank& seat) { send_to_each(seat, [](int) { return true; }); });
  EXPECT_EQ(pairs_by(logs, "NVLink,"), 96u);
  EXPECT_EQ(logs.senders(), 0);
}

// The slots exist from init on, and stay while the communicator is suspended. The record of calls
// is off, because its memory counts from the first call on.
TEST(FabricCalls, MessagesTakeNoMemoryAndContinueAfterASuspension) {
  if (!has_emulated_gpus(2)) GTEST_SKIP() << "too few emulated GPUs";
  constexpr std::uint64_t kSlotsOfPair = 4 << 20;
  run_job(in_cliques({{{0}, {1}}, {"a", "b"}}, {1, 1})
              .under({{"NCCL_BUFFSIZE", "4096"}, {"NCCL_MAX_CTAS", "2"}, {"RONDO_RECORD", "0"}}),
          [&](NcclRank& seat) {
            std::uint64_t before = 0, after = 0;
            NCCL_OK(ncclCommMemStats(seat.comm, ncclStatGpuMemTotal, &before));
            EXPECT_GE(before, kSlotsOfPair);
            send_to_each(seat, [](int) { return true; });
            NCCL_OK(ncclCommMemStats(seat.comm, ncclStatGpuMemTotal, &after));
            EXPECT_EQ(after, before);
            NCCL_OK(ncclCommSuspend(seat.comm, NCCL_SUSPEND_MEM));
            NCCL_OK(ncclCommResume(seat.comm));
            send_to_each(seat, [](int) { return true; });
          });
}

const Layout kTwoOfTwo{{{0}, {1}, {2}, {3}}, {"a", "a", "b", "b"}};

// All ranks then use the network, and one line of the log says why.
TEST(FabricRefused, ForOneRankIsTheNetworkForAll) {
  if (!has_emulated_gpus(4)) GTEST_SKIP() << "too few emulated GPUs";
  struct Row {
    const char* call;  // refused to rank 2; null: it has no IMEX channel
    std::size_t allowed;
    const char* text;
  };
  const Row rows[] = {
      {nullptr, 0, "rank 2 could not share its memory: CUDA failure"},
      {"fabric_create", 0, "rank 2 could not share its memory: CUDA failure"},
      {"fabric_export", 0, "rank 2 could not share its memory: CUDA failure"},
      {"fabric_import", 0, "rank 2 could not map memory of rank 0: CUDA failure"},
  };
  for (const Row& row : rows) {
    const JobLogs logs;
    std::vector<std::string> simt(4, "imex=1");
    if (row.call == nullptr) simt[2] = "imex=0";
    Job job = in_cliques(kTwoOfTwo, {1, 1, 1, 1}, simt).under(few_small_slots(logs.variables()));
    job.create = false;
    run_job(job, [&](NcclRank& seat) {
#ifdef RONDO_SIMT
      if (seat.rank == 2 && row.call != nullptr) simt::refuse_call(row.call, row.allowed);
#endif
      seat.join();
      ASSERT_NE(seat.comm, nullptr);
      run_all_with_rings(seat);
      send_to_each(seat, [](int) { return true; });
      seat.leave();
    });
    EXPECT_EQ(pairs_by(logs, "NVLink,"), 0u);
    EXPECT_EQ(pairs_by(logs, "network,"), 8u);
    const auto lines = logs.lines_with("NVLink between hosts is not used");
    ASSERT_EQ(lines.size(), 1u) << row.text;
    EXPECT_NE(lines[0].find(row.text), std::string::npos) << lines[0];
    EXPECT_NE(lines[0].find("IMEX channel"), std::string::npos) << lines[0];
    EXPECT_EQ(logs.lines_with("run as kernels").size(), 4u);
    EXPECT_GT(logs.senders(), 0);
  }
}

// Without the variable, or where no clique joins hosts, nothing is tried.
TEST(FabricRefused, NothingIsTriedUnlessAskedFor) {
  if (!has_emulated_gpus(4)) GTEST_SKIP() << "too few emulated GPUs";
  struct Row {
    const char* name;
    const char* value;
  };
  for (const Row& row : {Row{"NCCL_MNNVL_ENABLE", "2"}, Row{"NCCL_MNNVL_ENABLE", "0"},
                         Row{"NCCL_P2P_DISABLE", "1"}, Row{"RONDO_SIMT", "fabric=0"}}) {
    const JobLogs logs;
    Layout layout = in_cliques(kTwoOfTwo, {1, 1, 1, 1}).under(few_small_slots(logs.variables()));
    for (Environment& own : layout.of_process) own.emplace_back(row.name, row.value);
    run_job(layout, [](NcclRank& seat) {
      run_case(seat,
               {Collective::kAllReduce, DataType::kFloat32, RedOp::kSum, seat.size, 0, 5000, 3},
               {});
      send_to_each(seat, [](int) { return true; });
#ifdef RONDO_SIMT
      for (const simt::CallCount* one = simt::call_counts(); one != nullptr; one = one->next) {
        if (std::string(one->name).starts_with("fabric_")) {
          EXPECT_EQ(one->calls.load(), 0u);
        }
      }
#endif
    });
    EXPECT_EQ(logs.lines_with("NVLink joins").size(), 0u);
    EXPECT_EQ(logs.lines_with("NVLink between hosts is not used").size(), 0u);
    EXPECT_GT(logs.senders(), 0) << row.name << "=" << row.value;
  }
}

}  // namespace
}  // namespace rondo::test
