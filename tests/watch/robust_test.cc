// SPDX-License-Identifier: Apache-2.0
// librondo-watch.so where something is wrong around it: a full disk, hosts whose clocks differ by
// hours, a name server or a file server that does not answer, an NCCL of the future, communicators
// that are split, shrunk and aborted. The job goes on.
#include <dlfcn.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netdb.h>
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/fd.h"
#include "base/log.h"
#include "base/seconds.h"
#include "collectives/status/ask.h"
#include "collectives/status/diagnosis.h"
#include "tests/support/nccl_rank.h"
#include "tests/support/processes.h"
#include "tests/support/status_job.h"
#include "tests/support/temporary_folder.h"
#include "tests/watch/plugin_caller.h"
#include "tests/watch/simulated_nccl.h"

namespace rondo::test {
namespace {

using testing::HasSubstr;

std::string text_of_file(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// ---- a full disk ----

// A file system of one page, full. False: not permitted here.
bool mount_full_disk(const std::string& path) {
  if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0)
    return false;
  std::filesystem::create_directories(path);
  if (mount("rondo-test", path.c_str(), "tmpfs", 0, "size=4096") != 0) return false;
  std::ofstream(path + "/filler") << std::string(4096, 'x');
  return true;
}

TEST(WatchAround, AFullDiskCostsOneLine) {
  const TemporaryFolder folder;
  const std::string disk = folder.path() + "/disk", out = folder.path() + "/stderr";
  in_process(
      [&] {
        if (!mount_full_disk(disk)) return;
        const Fd errors(open(out.c_str(), O_CREAT | O_WRONLY | O_APPEND | O_CLOEXEC, 0600));
        dup2(errors.get(), 2);
        const auto comm = make_simulated_comm();
        SimulatedRank rank({.plugin = RONDO_TEST_WATCH_PLUGIN, .ranks = 1, .hosts = 2}, comm);
        EXPECT_TRUE(wait_until([&] { return !text_of_file(out).empty(); }));
        for (int call = 0; call < 3; ++call) rank.collective("AllReduce", 100);
        rank.wait_for_gpu();
        EXPECT_TRUE(shows([](const RankView& one) { return one.finished == 3; }));
        rank.finish();
        const auto left = std::distance(std::filesystem::directory_iterator(disk), {});
        EXPECT_EQ(left, 1) << "a file that is not whole";
      },
      {{"RONDO_WATCH_DIR", disk}, {"NCCL_SOCKET_IFNAME", "lo"}});
  const std::string printed = text_of_file(out);
  if (printed.empty() && !std::filesystem::exists(out)) GTEST_SKIP() << "no mounts here";
  EXPECT_THAT(printed, HasSubstr("RONDO_WATCH_DIR=" + disk));
  EXPECT_THAT(printed, HasSubstr("No space left on device; the job goes on"));
  EXPECT_EQ(std::count(printed.begin(), printed.end(), '\n'), 1) << printed;
}

// ---- clocks ----

// This process, which has one thread, sees a monotonic clock that is hours ahead, as on a host that
// runs for longer. False: not permitted here.
bool set_clock_ahead() {
  if (unshare(CLONE_NEWTIME) != 0) return false;
  std::ofstream offsets("/proc/self/timens_offsets");
  offsets << "monotonic 10800 0\nboottime 10800 0\n" << std::flush;
  const Fd ahead(open("/proc/self/ns/time_for_children", O_RDONLY | O_CLOEXEC));
  return offsets.good() && setns(ahead.get(), CLONE_NEWTIME) == 0;
}

TEST(WatchAround, HostsWhoseClocksDifferByHours) {
  const TemporaryFolder folder;
  const auto sockets_of = [&](int rank) { return folder.path() + (rank < 2 ? "/a" : "/b"); };
  Job job(as_processes(4));
  job.hosts = {"a", "a", "b", "b"};
  job.create = false;
  for (int rank = 0; rank < 4; ++rank)
    job.of_process.push_back({{"RONDO_STATUS_DIR", sockets_of(rank)},
                              {"RONDO_WATCH_DIR", folder.path() + "/shared"},
                              {"NCCL_SOCKET_IFNAME", "lo"}});
  const auto comm = make_simulated_comm();
  RankProcesses ranks(job, [&](RankSeat& seat) {
    const std::int64_t before = now_ns();
    if (seat.rank >= 2 && (!set_clock_ahead() || now_ns() - before < 10'000'000'000'000)) {
      seat.board.flag = 2;
      return seat.mark(1);
    }
    SimulatedRank rank(
        {.plugin = RONDO_TEST_WATCH_PLUGIN, .rank = seat.rank, .ranks = seat.size, .hosts = 2},
        comm);
    for (int call = 0; call < 5; ++call) {
      rank.collective("AllReduce", 100);
      rank.wait_for_gpu(1);
    }
    if (seat.rank != 3) rank.collective("AllReduce", 100);
    seat.mark(1);
    seat.wait_flag(1);
  });
  ASSERT_TRUE(ranks.wait_stage(1));
  if (ranks.board().flag == 2) GTEST_SKIP() << "no time namespaces here";
  for (const int asked : {0, 2}) {
    std::vector<Blame> blamed;
    const WithEnvironment status("RONDO_STATUS_DIR", sockets_of(asked));
    EXPECT_TRUE(wait_until([&] {
      const auto view = ask_process(ranks.pid(asked), true);
      if (view.ok()) blamed = diagnose(*view);
      return !blamed.empty() && blamed[0].waiters == 3;  // the wait of each is known to both hosts
    }));
    EXPECT_EQ(blamed.at(0).rank, 3) << blamed[0].text;
    EXPECT_EQ(blamed.at(0).kind, Blame::kNotEntered) << blamed[0].text;
    EXPECT_LT(blamed.at(0).seconds, 3600) << "a wait of the other host's clock";
  }
  ranks.board().flag = 1;
}

// ---- a name server, a file server that does not answer ----

constexpr const char *kHangingName = "a.name.that.hangs", *kHangingFolder = "/a/folder/that/hangs";
RankSeat* seat_that_hangs = nullptr;

[[noreturn]] void hang() {
  for (seat_that_hangs->mark(1);;) pause();
}

// A job of one process whose watch meets what hangs; it answers, and ends.
void goes_on(const Environment& around) {
  const StatusJob status;
  Job job(as_processes(1).under(status.environment()).under(around));
  job.create = false;
  RankProcesses ranks(job, [&](RankSeat& seat) {
    seat_that_hangs = &seat;
    SimulatedRank rank({.plugin = RONDO_TEST_WATCH_PLUGIN, .ranks = 2, .hosts = 2},
                       make_simulated_comm());
    seat.wait_flag(1);
  });
  ASSERT_TRUE(ranks.wait_stage(1));  // it hangs
  for (int turn = 0; turn < 3; ++turn) {
    const auto view = ask_process(ranks.pid(0), true);
    ASSERT_TRUE(view.ok()) << view.error().text;
    ASSERT_FALSE(view->processes.empty());
    EXPECT_NE(view->processes[0].process, 0u) << "known by its memory files only";
  }
  ranks.board().flag = 1;
  EXPECT_TRUE(ranks.wait_exits());  // nobody waits for the server
}

TEST(WatchAround, ANameServerThatDoesNotAnswer) {
  goes_on({{"MASTER_ADDR", kHangingName},
           {"RONDO_WATCH_SECRET", "0123456789abcdef0123456789abcdef"},
           {"NCCL_SOCKET_IFNAME", "lo"}});
}

TEST(WatchAround, AFileServerThatDoesNotAnswer) {
  goes_on({{"RONDO_WATCH_DIR", kHangingFolder}, {"NCCL_SOCKET_IFNAME", "lo"}});
}

// ---- a later NCCL ----

// It looks for its newest version first, and then for those that the plugin has. What it tells
// beyond them means nothing here.
TEST(WatchAround, EventsAndStatesOfALaterNccl) {
  void* const library = dlopen(RONDO_TEST_WATCH_PLUGIN, RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << dlerror();
  EXPECT_EQ(dlsym(library, "ncclProfiler_v8"), nullptr);
  ASSERT_NE(dlsym(library, "ncclProfiler_v7"), nullptr);
  in_process([] {
    using Nccl = Caller<abi::Descriptor5, 7>;
    Nccl nccl;
    nccl.init();
    void* const call = nccl.start(Nccl::coll());
    nccl.stop(call);
    void* const kernel = nccl.start(Nccl::event_of(abi::kKernelCh, call));
    for (const int bit : {15, 16, 20, 40, 63}) {
      auto event = Nccl::event_of(abi::kKernelCh, call);
      event.kind = std::uint64_t{1} << bit;
      void* const unknown = nccl.start(event);
      for (const int state : {31, 32, 1000, -1})
        EXPECT_EQ(nccl.table.record(unknown, state, nullptr), 0);
      nccl.table.record(kernel, 1000, nullptr);
      nccl.stop(unknown);
    }
    auto other = Nccl::coll();
    other.coll.function = "AllReduceOfTheFuture";
    other.coll.type = "ncclFloat1";
    nccl.stop(nccl.start(other));
    EXPECT_TRUE(shows([](const RankView& rank) { return rank.call >= 1 && rank.in_kernel; }));
    EXPECT_EQ(own_rank().finished, 0u) << "the first kernel runs";
    nccl.stop(kernel);
  });
}

// ---- communicators of Rondo's own libnccl ----

void reduce(ncclComm_t comm) {
  float in[10] = {}, out[10];
  NCCL_OK(ncclAllReduce(in, out, 10, ncclFloat32, ncclSum, comm, nullptr));
}

// The communicators with that number of ranks.
int count_of(const JobView& view, int size) {
  int count = 0;
  for (const CommunicatorView& one : view.communicators)
    count += one.size == size && one.ranks.size() == static_cast<std::size_t>(size);
  return count;
}

// Four ranks are split into halves, the halves aborted, the rest is shrunk to three ranks, of which
// one does not come to the second call.
void split_abort_and_shrink(NcclRank& seat) {
  reduce(seat.comm);
  ncclComm_t half = nullptr, rest = nullptr;
  NCCL_OK(ncclCommSplit(seat.comm, seat.rank % 2, seat.rank, &half, nullptr));
  reduce(half);
  seat.mark(1);
  seat.wait_flag(1);
  NCCL_OK(ncclCommAbort(half));
  if (seat.rank == 3) return seat.mark(2), void(seat.wait_flag(2));
  int without[] = {3};
  NCCL_OK(ncclCommShrink(seat.comm, without, 1, &rest, nullptr, NCCL_SHRINK_DEFAULT));
  reduce(rest);
  seat.mark(2);
  if (seat.rank == 1) seat.wait_flag(2);
  reduce(rest);
  NCCL_OK(ncclCommDestroy(rest));
}

TEST(WatchAround, CommunicatorsThatAreSplitAbortedAndShrunk) {
  const StatusJob status;
  log::reset();
  RankProcesses ranks(as_processes(4)
                          .under(status.environment())
                          .under({{"NCCL_PROFILER_PLUGIN", RONDO_TEST_WATCH_PLUGIN},
                                  {"NCCL_RAS_ENABLE", "0"},
                                  {"RONDO_RECORD", "0"}}),
                      split_abort_and_shrink);
  ASSERT_TRUE(ranks.wait_stage(1));
  JobView view;
  const auto shows_rank = [&](int rank, const std::function<bool()>& holds) {
    return wait_until([&] {
      auto asked = ask_process(ranks.pid(rank), false);
      if (asked.ok()) view = std::move(*asked);
      return asked.ok() && holds();
    });
  };
  for (const int rank : {0, 3})
    EXPECT_TRUE(shows_rank(rank, [&] { return count_of(view, 4) == 1 && count_of(view, 2) >= 1; }))
        << view.to_json().text(1);
  ranks.board().flag = 1;
  ASSERT_TRUE(ranks.wait_stage(2));
  EXPECT_TRUE(shows_rank(0, [&] { return count_of(view, 3) == 1 && count_of(view, 2) == 0; }))
      << view.to_json().text(1);
  std::vector<Blame> blamed;
  EXPECT_TRUE(shows_rank(2, [&] { return !(blamed = diagnose(view)).empty(); }));
  EXPECT_EQ(blamed.at(0).rank, 1) << blamed[0].text;
  EXPECT_EQ(blamed.at(0).kind, Blame::kNotEntered) << blamed[0].text;
  EXPECT_EQ(view.communicators[blamed[0].communicator].size, 3);
  ranks.board().flag = 2;
  EXPECT_TRUE(ranks.wait_exits());
  ranks.check_expectations();
}

}  // namespace
}  // namespace rondo::test

// Replace those of the C library, for the plugin too.
extern "C" {
__attribute__((visibility("default"))) int getaddrinfo(const char* name, const char* service,
                                                       const addrinfo* hints, addrinfo** found) {
  using namespace rondo::test;
  if (name != nullptr && std::string_view(name) == kHangingName) hang();
  using Resolve = decltype(&getaddrinfo);
  static const auto of_libc = reinterpret_cast<Resolve>(dlsym(RTLD_NEXT, "getaddrinfo"));
  return of_libc(name, service, hints, found);
}
__attribute__((visibility("default"))) int mkdir(const char* path, mode_t mode) noexcept {
  using namespace rondo::test;
  if (std::string_view(path) == kHangingFolder) hang();
  using Make = int (*)(const char*, mode_t);
  static const auto of_libc = reinterpret_cast<Make>(dlsym(RTLD_NEXT, "mkdir"));
  return of_libc(path, mode);
}
}
