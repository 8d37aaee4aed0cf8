// SPDX-License-Identifier: Apache-2.0
// A rank is stopped at a random moment, often during a copy into a buffer of its peer. The peer's
// call returns by its deadline, and what the program stores in that memory afterwards stays
// unchanged when the stopped rank continues.
//
// RONDO_TEST_STOPS=1000: 1000 stops in total instead of a few of each kind.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <random>

#include "base/seconds.h"
#include "tests/support/engine_rank.h"
#include "tests/support/processes.h"
#include "transport/shm/arena.h"

namespace rondo::test {
namespace {

constexpr double kTimeout = 0.3;  // RONDO_TIMEOUT, in seconds
constexpr std::size_t kBytes = 6 << 20;
constexpr std::size_t kStops = 4;

enum class Way { kSignal, kSignalFromOtherNamespace, kFreezer, kFreezerFromOtherNamespace };
const char* name_of(Way way) {
  constexpr const char* kNames[] = {"Signal", "SignalFromOtherNamespace", "Freezer",
                                    "FreezerFromOtherNamespace"};
  return kNames[static_cast<int>(way)];
}
bool freezes(Way way) { return way >= Way::kFreezer; }
bool is_apart(Way way) {
  return way == Way::kSignalFromOtherNamespace || way == Way::kFreezerFromOtherNamespace;
}

bool write_to(const std::string& path, const std::string& text) {
  const Fd fd(open(path.c_str(), O_WRONLY | O_CLOEXEC));
  return fd && write(fd.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
}

// A control group that can be frozen.
class Freezer {
 public:
  Freezer() {
    const std::string name = "/rondo-test-" + std::to_string(getpid());
    for (const char* mount : {"/sys/fs/cgroup/freezer", "/sys/fs/cgroup"}) {
      v2_ = access((std::string(mount) + "/cgroup.subtree_control").c_str(), F_OK) == 0;
      if (!v2_ && std::strcmp(mount, "/sys/fs/cgroup") == 0) continue;
      if (mkdir((mount + name).c_str(), 0755) != 0) continue;
      folder_ = mount + name;
      if (access((folder_ + (v2_ ? "/cgroup.freeze" : "/freezer.state")).c_str(), W_OK) == 0)
        return;
      rmdir(folder_.c_str());
      folder_.clear();
    }
  }
  ~Freezer() {
    if (!works()) return;
    set(false);
    for (int turn = 0; turn < 1000 && rmdir(folder_.c_str()) != 0; ++turn) nap(0.005);
  }
  bool works() const { return !folder_.empty(); }
  bool add(pid_t pid) { return write_to(folder_ + "/cgroup.procs", std::to_string(pid)); }
  bool set(bool frozen) {
    return v2_ ? write_to(folder_ + "/cgroup.freeze", frozen ? "1" : "0")
               : write_to(folder_ + "/freezer.state", frozen ? "FROZEN" : "THAWED");
  }

 private:
  bool v2_ = false;
  std::string folder_;
};

bool may_unshare_pids() {
  const pid_t child = fork();
  if (child == 0) _exit(unshare(CLONE_NEWPID | CLONE_NEWNS) == 0 ? 0 : 1);
  int status = 1;
  waitpid(child, &status, 0);
  return status == 0;
}

// Runs the rest of the body in a process in its own PID namespace, with its own /proc. The parent
// waits for it, and writes its pid in the test's namespace to the board.
void move_apart(EngineRank& seat) {
  if (unshare(CLONE_NEWPID | CLONE_NEWNS) != 0) return seat.expect(false, "unshare");
  const pid_t child = fork();
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    const bool mounted = mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
                         mount("proc", "/proc", "proc", 0, nullptr) == 0;
    return seat.expect(mounted, "a /proc of the namespace");
  }
  seat.mine().value.store(static_cast<std::uint64_t>(child));
  int status = 1;
  waitpid(child, &status, 0);
  _exit(status == 0 ? 0 : 1);
}

struct Buffer {
  Buffer() : data(static_cast<std::byte*>(*(*shm::Arena::of_process())->allocate(kBytes))) {}
  ~Buffer() { (void)(*shm::Arena::of_process())->free(data).ok(); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  void fill(int value) { std::memset(data, value, kBytes); }
  std::size_t changed(int value) const {
    return kBytes - static_cast<std::size_t>(std::count(data, data + kBytes, std::byte(value)));
  }
  std::byte* data;
};

struct Variant {
  Collective collective;
  bool in_place;
  bool frees;  // data kept after the call is in memory allocated after it
};

void run_rank(EngineRank& seat, const Variant& variant, bool apart) {
  if (apart) move_apart(seat);
  if (const Status joined = seat.join(short_timeouts()); !joined.ok())
    return seat.expect(false, joined.error().text);
  auto in = std::make_unique<Buffer>(), out = std::make_unique<Buffer>();
  in->fill(1);
  Call call;
  call.record = {kBytes / 4,
                 variant.collective,
                 DataType::kInt32,
                 RedOp::kSum,
                 0,
                 variant.collective == Collective::kReduce ? 0 : -1};
  call.send = in->data;
  call.receive = variant.in_place ? in->data : out->data;
  Status result;
  for (int turn = 0; result.ok(); ++turn) {
    result = seat.comm->run({&call, 1});
    if (turn != 2) continue;
    if (seat.rank == 0) seat.comm->set_timeout(kTimeout);
    seat.mark(1);
  }
  if (seat.rank == 1) return seat.report(result);
  if (variant.frees) {
    in.reset(), out.reset();
    in = std::make_unique<Buffer>(), out = std::make_unique<Buffer>();
  }
  in->fill(0x35), out->fill(0x53);
  seat.report(result);
  seat.expect(seat.wait_flag(1), "no flag");
  seat.expect(in->changed(0x35) + out->changed(0x53) == 0,
              fmt::format("{} {}{}: {} and {} bytes changed after the call had returned",
                          name(variant.collective), variant.in_place ? "in place" : "",
                          variant.frees ? ", freed" : "", in->changed(0x35), out->changed(0x53)));
}

class StandingStill : public testing::TestWithParam<Way> {
 protected:
  // Seconds until the other rank's call returned.
  double stop_once(std::mt19937& random) {
    const Way way = GetParam();
    const Variant variant{random() % 2 == 0 ? Collective::kAllReduce : Collective::kReduce,
                          random() % 2 == 0, random() % 2 == 0};
    Job options;
    options.create = false;
    RankProcesses ranks(2, options,
                        [&](EngineRank& seat) { run_rank(seat, variant, is_apart(way)); });
    if (!ranks.wait_stage(1)) return 0;
    const pid_t pid =
        is_apart(way) ? static_cast<pid_t>(ranks.board().seats[1].value.load()) : ranks.pid(1);
    EXPECT_TRUE(!freezes(way) || freezer_->add(pid));
    nap(std::uniform_real_distribution<>(0, 0.02)(random));
    const std::int64_t stopped = now_ns();
    EXPECT_TRUE(freezes(way) ? freezer_->set(true) : kill(pid, SIGSTOP) == 0);
    const bool returned = ranks.wait_reports({1});
    const double took = static_cast<double>(now_ns() - stopped) / 1e9;
    EXPECT_TRUE(freezes(way) ? freezer_->set(false) : kill(pid, SIGCONT) == 0);
    EXPECT_TRUE(returned && ranks.wait_reports());
    ranks.board().flag.store(1);
    EXPECT_TRUE(ranks.wait_exits());
    ranks.check_expectations();
    return took;
  }

  void SetUp() override {
    if (is_apart(GetParam()) && !may_unshare_pids())
      GTEST_SKIP() << "no right to make a PID namespace";
    if (!freezes(GetParam())) return;
    freezer_ = std::make_unique<Freezer>();
    if (!freezer_->works()) GTEST_SKIP() << "no control group here can be made and frozen";
  }
  std::unique_ptr<Freezer> freezer_;
};

TEST_P(StandingStill, InATouchHoldsUpNoCallAndChangesNothingLater) {
  const char* all = std::getenv("RONDO_TEST_STOPS");
  const std::size_t stops = all != nullptr ? std::strtoul(all, nullptr, 10) / 4 : kStops;
  std::mt19937 random(static_cast<unsigned>(GetParam()) + 11);
  double longest = 0;
  for (std::size_t i = 0; i < stops && !HasFailure(); ++i)
    longest = std::max(longest, stop_once(random));
  std::printf("%zu stops; the longest call returned %.2f s after its stop, deadline %.2f s\n",
              stops, longest, kTimeout);
}

INSTANTIATE_TEST_SUITE_P(Ways, StandingStill,
                         testing::Values(Way::kSignal, Way::kSignalFromOtherNamespace,
                                         Way::kFreezer, Way::kFreezerFromOtherNamespace),
                         [](const auto& info) { return std::string(name_of(info.param)); });

}  // namespace
}  // namespace rondo::test
