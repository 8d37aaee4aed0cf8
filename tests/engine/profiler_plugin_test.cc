// SPDX-License-Identifier: Apache-2.0
// Profiler plugins of every version get the events of a job's calls on host memory: their order,
// parents, counts, types and names. A plugin that cannot be used costs the job nothing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <functional>

#include "api/rondo.h"
#include "base/log.h"
#include "tests/support/nccl_rank.h"
#include "tests/support/profiler/profilers.h"
#include "tests/support/status_job.h"
#include "tests/support/temporary_folder.h"
#include "transport/status/question.h"
#include "transport/status/user_folder.h"

namespace rondo::test::profiler_plugins {
namespace {

constexpr int kRanks = 3;
constexpr std::size_t kCount = 100;
using Lines = std::vector<ProfilerLine>;

// A job whose ranks load the plugin.
class Profiled {
 public:
  explicit Profiled(const std::string& plugin, const Environment& more = {},
                    Layout layout = as_processes(kRanks)) {
    Environment all = {{"NCCL_PROFILER_PLUGIN", plugin},
                       {"RONDO_TEST_PROFILER_FOLDER", folder_.path()}};
    all.insert(all.end(), more.begin(), more.end());
    job_ = layout.under(all);
  }

  void run(const std::function<void(NcclRank&)>& body) {
    log::reset();  // processes inherit what earlier tests have read of the environment
    RankProcesses ranks(job_, body);
    ranks.wait_exits();
    ranks.check_expectations();
    for (int r = 0; r < ranks.size(); ++r)
      lines_.push_back(profiler_lines(folder_.path(), ranks.pid(r), r));
  }
  const Lines& of(int rank) const { return lines_[static_cast<std::size_t>(rank)]; }
  // Its starts of this kind.
  Lines starts(int rank, long kind) const {
    Lines found;
    for (const ProfilerLine& line : of(rank))
      if (line.what == "start" && line.number("kind") == kind) found.push_back(line);
    return found;
  }

 private:
  const TemporaryFolder folder_;
  Job job_;
  std::vector<Lines> lines_;
};

constexpr long kGroup = 1, kColl = 2, kP2p = 4, kGroupApi = 256, kCollApi = 512, kP2pApi = 1024;

// A sum, a broadcast, and a group: two fused sums, and a message around the ring.
void call_all(NcclRank& seat) {
  std::array<float, kCount> in{}, out{};
  const int next = (seat.rank + 1) % seat.size, before = (seat.rank + seat.size - 1) % seat.size;
  NCCL_OK(ncclAllReduce(in.data(), out.data(), kCount, ncclFloat32, ncclSum, seat.comm, nullptr));
  NCCL_OK(ncclBroadcast(in.data(), out.data(), 7, ncclUint8, 1, seat.comm, nullptr));
  NCCL_OK(ncclGroupStart());
  NCCL_OK(ncclAllReduce(in.data(), in.data(), 3, ncclFloat32, ncclSum, seat.comm, nullptr));
  NCCL_OK(ncclSend(in.data(), 5, ncclInt64, next, seat.comm, nullptr));
  NCCL_OK(ncclRecv(out.data(), 5, ncclInt64, before, seat.comm, nullptr));
  NCCL_OK(
      ncclAllReduce(out.data() + 10, out.data() + 10, 4, ncclFloat32, ncclSum, seat.comm, nullptr));
  NCCL_OK(ncclGroupEnd());
}

constexpr const char* kOneCall =
    " +GroupApi !23 +CollApi<GroupApi -CollApi !24 +Group +Coll<CollApi -Coll -Group -GroupApi";

TEST(ProfilerPlugins, OfVersion5And6GetTheCallsOfTheApiAsParents) {
  for (const std::string version : {"5", "6", ""}) {
    Profiled job(profiler_file(version));
    job.run(call_all);
    for (int r = 0; r < kRanks; ++r) {
      EXPECT_EQ(shape_of(job.of(r)),
                std::string("init") + kOneCall + kOneCall +
                    " +GroupApi !23 +CollApi<GroupApi -CollApi +P2pApi<GroupApi -P2pApi"
                    " +P2pApi<GroupApi -P2pApi +CollApi<GroupApi -CollApi !24"
                    " +Group +Coll<CollApi +Coll<CollApi -Coll -Coll -Group"
                    " +Group +P2p<P2pApi +P2p<P2pApi -P2p -P2p -Group -GroupApi end");
      const Lines groups = job.starts(r, kGroupApi);
      ASSERT_EQ(groups.size(), 3u);
      EXPECT_EQ(groups[0].number("depth"), 1);
      EXPECT_EQ(groups[2].number("depth"), 2) << "a group of the program";
      EXPECT_EQ(job.of(r)[0].of("version"), version.empty() ? "6" : version);
    }
  }
}

TEST(ProfilerPlugins, GetWhatEachCallIs) {
  Profiled job(profiler_file());
  job.run([](NcclRank& seat) { call_all(seat); });
  for (int r = 0; r < kRanks; ++r) {
    const Lines colls = job.starts(r, kColl), apis = job.starts(r, kCollApi);
    ASSERT_EQ(colls.size(), 4u);
    ASSERT_EQ(apis.size(), 4u);
    const long counts[] = {kCount, 7, 3, 4};
    const char* const sequences[] = {"0", "0", "1", "2"};
    for (std::size_t i = 0; i < colls.size(); ++i) {
      const bool sum = i != 1;
      for (const ProfilerLine& line : {colls[i], apis[i]}) {
        EXPECT_EQ(line.of("func"), sum ? "AllReduce" : "Broadcast");
        EXPECT_EQ(line.number("count"), counts[i]) << i;
        EXPECT_EQ(line.of("type"), sum ? "ncclFloat32" : "ncclUint8");
        EXPECT_EQ(line.number("root"), sum ? -1 : 1);
      }
      EXPECT_EQ(colls[i].of("seq"), sequences[i]) << "of its function";
      EXPECT_EQ(colls[i].number("parent"), apis[i].number("id")) << i;
      EXPECT_NE(colls[i].of("algo"), "Unknown");
      EXPECT_NE(colls[i].of("send"), "(nil)");
    }
    EXPECT_EQ(colls[2].of("send"), colls[2].of("recv")) << "in place";
    const Lines messages = job.starts(r, kP2p), calls = job.starts(r, kP2pApi);
    ASSERT_EQ(messages.size(), 2u);
    EXPECT_EQ(messages[0].of("func"), "Send");
    EXPECT_EQ(messages[0].number("peer"), (r + 1) % kRanks);
    EXPECT_EQ(messages[1].of("func"), "Recv");
    EXPECT_EQ(messages[1].number("peer"), (r + kRanks - 1) % kRanks);
    for (std::size_t i = 0; i < 2; ++i) {
      EXPECT_EQ(messages[i].number("count"), 5);
      EXPECT_EQ(messages[i].of("type"), "ncclInt64");
      EXPECT_EQ(messages[i].number("parent"), calls[i].number("id"));
    }
    const ProfilerLine& init = job.of(r)[0];
    EXPECT_EQ(init.number("ranks"), kRanks);
    EXPECT_EQ(init.number("hosts"), 1);
    EXPECT_EQ(init.of("comm"), job.of(0)[0].of("comm")) << "equal on all ranks";
  }
}

TEST(ProfilerPlugins, OfVersions1To4GetGroupsAsParents) {
  for (const std::string version : {"1", "2", "3", "4"}) {
    Profiled job(profiler_file(version));
    job.run(call_all);
    const std::string one = " +Group +Coll<Group -Coll -Group";
    EXPECT_EQ(shape_of(job.of(0)), "init" + one + one +
                                       " +Group +Coll<Group +Coll<Group -Coll -Coll -Group"
                                       " +Group +P2p<Group +P2p<Group -P2p -P2p -Group end")
        << version;
    const bool numbers = version == "1";
    const Lines colls = job.starts(1, kColl), messages = job.starts(1, kP2p);
    ASSERT_EQ(colls.size(), 4u) << version;
    EXPECT_EQ(colls[0].of("func"), numbers ? "4" : "AllReduce");
    EXPECT_EQ(colls[1].of("func"), numbers ? "0" : "Broadcast");
    EXPECT_EQ(colls[0].of("type"), numbers ? "7" : "ncclFloat32");
    EXPECT_EQ(colls[1].number("count"), 7);
    EXPECT_EQ(colls[1].number("root"), 1);
    ASSERT_EQ(messages.size(), 2u) << version;
    EXPECT_EQ(messages[0].of("func"), numbers ? "6" : "Send");
    EXPECT_EQ(messages[0].number("peer"), 2);
    EXPECT_EQ(messages[0].number("count"), 5);
  }
}

// Across hosts, and as threads of one process; a communicator's own exchanges are no events.
TEST(ProfilerPlugins, GetOnlyTheProgramsCallsOfEachCommunicator) {
  for (const Layout& layout :
       {Layout{{{kHostMemory}, {kHostMemory}}, {"a", "b"}, {}}, as_threads(2)}) {
    Profiled job(profiler_file(), {}, layout);
    job.run([](NcclRank& seat) {
      ncclComm_t child = nullptr;
      NCCL_OK(ncclCommSplit(seat.comm, 0, seat.rank, &child, nullptr));
      std::array<int, 2> in{}, out{};
      NCCL_OK(ncclAlltoAll(in.data(), out.data(), 1, ncclInt32, child, nullptr));
      NCCL_OK(ncclCommDestroy(child));
    });
    for (int r = 0; r < 2; ++r) {
      const std::string shape = shape_of(job.of(r));
      EXPECT_EQ(shape, std::string("init init") + kOneCall + " end end");
      EXPECT_EQ(job.starts(r, kColl).at(0).of("func"), "AlltoAll");
      EXPECT_EQ(job.of(r)[0].number("hosts"),
                static_cast<long>(std::max<std::size_t>(layout.hosts.size(), 1)));
    }
  }
}

// A nonblocking call ends on another thread, after its function has returned.
TEST(ProfilerPlugins, ParentsOutliveCallsOfOtherThreads) {
  Profiled job(profiler_file(), {}, as_processes(2));
  job.run([](NcclRank& seat) {
    rondoStream_t queue = nullptr;
    NCCL_OK(rondoStreamCreate(&queue));
    const cudaStream_t stream = rondoStreamHandle(queue);
    std::array<int, 2> data{};
    for (int i = 0; i < 50; ++i)
      NCCL_OK(ncclAllReduce(data.data(), data.data(), 2, ncclInt32, ncclMax, seat.comm, stream));
    NCCL_OK(rondoStreamSynchronize(queue));
    NCCL_OK(rondoStreamDestroy(queue));
  });
  for (int r = 0; r < 2; ++r) {
    EXPECT_EQ(job.starts(r, kColl).size(), 50u);
    std::map<long, bool> stopped;  // groups
    std::map<long, long> group_of;
    for (const ProfilerLine& line : job.of(r)) {
      EXPECT_NE(line.what, "wrong") << line.text;
      if (line.what == "start" && line.number("kind") == kCollApi)
        group_of[line.number("id")] = line.number("parent");
      if (line.what == "stop") stopped[line.number("id")] = true;
      const bool coll = line.what == "start" && line.number("kind") == kColl;
      EXPECT_FALSE(coll && stopped[group_of[line.number("parent")]]) << line.text;
    }
  }
}

TEST(ProfilerPlugins, GetOnlyWhatTheyAskFor) {
  Profiled none(profiler_file(), {{"RONDO_TEST_PROFILER_MASK", "0"}});
  none.run(call_all);
  EXPECT_EQ(shape_of(none.of(0)), "init end");
  // Proxy operations have no equivalent, but their ancestors are sent, as by NCCL.
  Profiled proxies(profiler_file(), {{"RONDO_TEST_PROFILER_MASK", "8"}});
  proxies.run(call_all);
  EXPECT_EQ(proxies.starts(0, kColl).size(), 4u);
  EXPECT_EQ(proxies.starts(0, 8).size(), 0u);
  Profiled calls(profiler_file(), {{"RONDO_TEST_PROFILER_MASK", "512"}});
  calls.run(call_all);
  EXPECT_EQ(calls.starts(0, kCollApi).size(), 4u);
  EXPECT_EQ(calls.starts(0, kColl).size() + calls.starts(0, kGroup).size(), 0u);
}

// A client of NCCL's RAS protocol sets the events for the plugins of all processes.
TEST(ProfilerPlugins, GetWhatAClientAsksForFromThenOn) {
  const StatusJob status;
  Profiled job(profiler_file(), status.environment(), as_processes(2));
  job.run([](NcclRank& seat) {
    int data = 1;
    NCCL_OK(ncclAllReduce(&data, &data, 1, ncclInt32, ncclMax, seat.comm, nullptr));
    if (seat.rank == 0) {
      const auto answer_to = [](const std::string& line) {
        std::vector<status::Question> questions;
        const auto folder = status::UserFolder::find(geteuid());
        for (const auto& name : folder->sockets())
          if (name.pid == getpid())
            questions.push_back(status::Question::to_socket(
                folder->path_of(name), line, net::Clock::now() + std::chrono::seconds(20)));
        status::await_answers(questions);
        return questions.at(0).answer().ok() ? *questions[0].answer()
                                             : questions[0].answer().error().text;
      };
      // Until the other process answers, too, which it does late on a busy machine.
      for (const char* mask : {"p2p,coll", "none"}) {
        std::string answer;
        const auto is_set = [&] {
          answer = answer_to(fmt::format("CONTROL PROFILER_MASK {}", mask));
          return answer == "OK\n";
        };
        seat.expect(wait_until(is_set), mask + (": " + answer));
      }
    }
    NCCL_OK(ncclAllReduce(&data, &data, 1, ncclInt32, ncclMax, seat.comm, nullptr));
    NCCL_OK(ncclAllReduce(&data, &data, 1, ncclInt32, ncclMax, seat.comm, nullptr));
  });
  for (int r = 0; r < 2; ++r) {
    const std::size_t colls = job.starts(r, kColl).size();
    EXPECT_GE(colls, 1u);
    EXPECT_LE(colls, 2u) << "the second call may have begun before";
  }
}

// Each of these costs one line.
TEST(ProfilerPlugins, ThatCannotBeUsedDoNotStopTheJob) {
  struct Case {
    std::string plugin, failing, text;
  };
  const std::vector<Case> cases = {
      {"/nowhere/profiler.so", "", "/nowhere/profiler.so does not exist"},
      {"nowhere", "", "libnccl-profiler-nowhere.so cannot be loaded"},
      {profiler_file("7"), "", "is not a profiler plugin: it has none of the symbols"},
      {"STATIC_PLUGIN", "", "STATIC_PLUGIN is not a profiler plugin"},
      {profiler_file(), "init", "init() gave ncclSystemError"},
      {profiler_file(), "by a crash", "init() crashed (Segmentation fault)"},
      {profiler_file(), "by abort", "init() crashed (Aborted)"},
      {profiler_file(), "startEvent", "startEvent() gave ncclSystemError"},
      {profiler_file(), "stopEvent", "stopEvent() gave ncclSystemError"},
      {profiler_file(), "finalize", "finalize() gave ncclSystemError"},
  };
  for (const Case& each : cases) {
    const TemporaryFolder logs;
    Profiled job(each.plugin,
                 {{"RONDO_TEST_PROFILER_FAIL", each.failing},
                  {"NCCL_DEBUG", "WARN"},
                  {"NCCL_DEBUG_FILE", logs.path() + "/log"}},
                 as_processes(1));
    job.run([](NcclRank& seat) {
      float one = 1;
      NCCL_OK(ncclAllReduce(&one, &one, 1, ncclFloat32, ncclSum, seat.comm, nullptr));
      NCCL_OK(ncclGroupStart());
      NCCL_OK(ncclSend(&one, 1, ncclFloat32, 0, seat.comm, nullptr));
      NCCL_OK(ncclRecv(&one, 1, ncclFloat32, 0, seat.comm, nullptr));
      NCCL_OK(ncclGroupEnd());
    });
    std::ifstream file(logs.path() + "/log");
    std::string text, all;
    int lines = 0;
    while (std::getline(file, text)) {
      lines += text.find("profiler") != std::string::npos;
      all += text + "\n";
    }
    EXPECT_EQ(lines, 1) << all;
    EXPECT_THAT(all, testing::HasSubstr(each.text));
    EXPECT_THAT(all, testing::HasSubstr("NCCL_PROFILER_PLUGIN"));
  }
}

// How a child of this process ends that gets a SIGSEGV; -1: it goes on.
int status_after_a_crash() {
  const pid_t child = fork();
  if (child == 0) {
    raise(SIGSEGV);
    _exit(0);
  }
  int status = -1;
  if (!wait_until([&] { return waitpid(child, &status, WNOHANG) == child; })) {
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
  }
  return status;
}

// Crashes of the program stay what they are: the handlers that Rondo has during init() are gone.
TEST(ProfilerPlugins, ThatThrowDoNotStopTheJobNorHideItsCrashes) {
  for (const std::string function : {"init", "startEvent", "stopEvent"}) {
    SCOPED_TRACE(function);
    const TemporaryFolder logs;
    Profiled job(profiler_file("-throws"),
                 {{"RONDO_TEST_PROFILER_THROWS", function},
                  {"NCCL_DEBUG", "WARN"},
                  {"NCCL_DEBUG_FILE", logs.path() + "/log"}},
                 as_processes(2));
    job.run([](NcclRank& seat) {
      for (int i = 1; i <= 3; ++i) {
        int sum = i;
        NCCL_OK(ncclAllReduce(&sum, &sum, 1, ncclInt32, ncclSum, seat.comm, nullptr));
        EXPECT_EQ(sum, 2 * i);
      }
      const int status = status_after_a_crash();
      // A sanitizer has a handler of its own, which ends with a status.
      EXPECT_TRUE(WIFSIGNALED(status) || (WIFEXITED(status) && WEXITSTATUS(status) != 0)) << status;
      EXPECT_NE(status, -1);
    });
    std::ifstream file(logs.path() + "/log");
    const std::string text(std::istreambuf_iterator<char>(file), {});
    EXPECT_THAT(text, testing::HasSubstr("threw in " + function));
    EXPECT_THAT(text, testing::HasSubstr("thrown by the plugin"));
  }
}

}  // namespace
}  // namespace rondo::test::profiler_plugins
