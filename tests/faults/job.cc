// SPDX-License-Identifier: Apache-2.0
#include "tests/faults/job.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstring>

#include "tests/faults/census.h"
#include "tests/faults/stages.h"

namespace rondo::test {
namespace {

constexpr int kRanks = 2;
constexpr int kRounds = 3;  // clean, with the fault, clean
constexpr int kFaulty = 1;
constexpr std::string_view kSettings[] = {"threads", "processes", "hosts", "cold"};
constexpr std::string_view kStages[] = {"init", "call", "stream", "message", "split", "destroy"};

// State shared by the processes of a job.
struct Board {
  std::atomic<int> arrived;
  std::atomic<int> failed;  // a rank has failed in this round
  Meeting meetings[kRounds];
  std::atomic<bool> fired;
  std::atomic<std::uint64_t> calls;
  std::atomic<bool> complained;
  char complaint[2048];

  void complain(const std::string& text) {
    if (complained.exchange(true)) return;
    std::snprintf(complaint, sizeof(complaint), "%s", text.c_str());
  }
};

class Process {
 public:
  Process(const Injection& injection, Board& board, int index)
      : injection_(injection), board_(board), index_(index) {
    const bool threads = processes() == 1;
    for (int rank = threads ? 0 : index; rank < (threads ? kRanks : index + 1); ++rank)
      ranks_.emplace_back(rank, kRanks);
  }
  int processes() const { return count(injection_.setting); }
  static int count(Setting setting) {
    return setting == Setting::kThreads || setting == Setting::kCold ? 1 : kRanks;
  }

  void run() {
    setenv("RONDO_EAGER_BYTES", "65536", 1);
    setenv("NCCL_SOCKET_IFNAME", "lo", 1);
    setenv("NCCL_DEBUG", "NONE", 0);
    if (injection_.setting == Setting::kHosts)
      setenv("NCCL_HOSTID", fmt::format("faults-{}", index_).c_str(), 1);
    const bool cold = injection_.setting == Setting::kCold;
    if (!cold) round(0);
    const Census before = Census::now();
    round(kFaulty);
    if (!cold) expect_no_growth(before);
    round(2);
    if (!cold) expect_no_growth(before);
  }

 private:
  void expect_no_growth(const Census& before) {
    if (board_.complained.load()) return;
    if (const auto growth = Census::growth_since(before); !growth.empty())
      board_.complain(fmt::format("process {} is left with{}", index_, growth));
  }

  // Waits until all processes have arrived.
  void meet() {
    const int target = ++meetings_ * processes();
    ++board_.arrived;
    while (board_.arrived.load() < target) usleep(200);
  }

  // Only the round with the fault is allowed to wait for a message in vain, and then briefly.
  void round(int number) {
    setenv("RONDO_TIMEOUT", number == kFaulty ? "2" : "120", 1);
    setenv("RONDO_INIT_TIMEOUT", number == kFaulty ? "4" : "120", 1);
    for (Rank& rank : ranks_) rank.has_fault = number == kFaulty;
    meet();
    board_.failed.store(0);
    meet();
    for (int s = 0; s < static_cast<int>(Stage::kCount); ++s) {
      const auto stage = static_cast<Stage>(s);
      const bool here = number == kFaulty && stage == injection_.stage &&
                        (processes() == 1 || injection_.victim == index_);
      run_stage(stage, board_.meetings[number], here);
      meet();
      const bool over = board_.failed.load() != 0;
      meet();  // no rank fails in the next stage before all have checked
      if (over) break;
    }
    for (Rank& rank : ranks_) {
      if (number != kFaulty && !rank.error.empty())
        board_.complain(fmt::format("round {}, without a fault: {}", number, rank.error));
      if (!rank.error.empty() && rank.error.find(": ") + 2 == rank.error.size())
        board_.complain(fmt::format("an error without a text: {}", rank.error));
      rank.finish();
    }
    meet();
  }

  void run_stage(Stage stage, Meeting& meeting, bool here) {
    OnThreads threads(ranks_.size(), [&](std::size_t i) {
      if (!ranks_[i].run(stage, meeting)) ++board_.failed;
    });
    if (here) arm(injection_.kind, injection_.nth);
    threads.go();
    if (!here) return;
    const Outcome seen = disarm();
    board_.fired.store(seen.fired);
    board_.calls.store(seen.calls);
  }

  const Injection injection_;
  Board& board_;
  const int index_;
  int meetings_ = 0;
  std::deque<Rank> ranks_;
};

// Empty if the process exited as expected.
std::string how_it_ended(pid_t pid, double until, bool* killed) {
  for (;;) {
    int status = 0;
    const pid_t ended = waitpid(pid, &status, WNOHANG);
    if (ended == pid && WIFSIGNALED(status))
      return *killed ? "" : fmt::format("ended by signal {}", WTERMSIG(status));
    if (ended == pid) return WEXITSTATUS(status) == 0 ? "" : "left with a status";
    const std::chrono::duration<double> now = std::chrono::steady_clock::now().time_since_epoch();
    if (now.count() > until && !*killed) return "hung";
    usleep(1000);
  }
}

}  // namespace

std::string_view name_of(Setting setting) { return kSettings[static_cast<int>(setting)]; }
std::string_view name_of(Stage stage) { return kStages[static_cast<int>(stage)]; }

Verdict run_job(const Injection& injection, double seconds) {
  void* shared =
      mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  auto& board = *new (shared) Board{};
  std::vector<pid_t> pids;
  for (int i = 0; i < Process::count(injection.setting); ++i) {
    const pid_t pid = fork();
    if (pid == 0) {
      const rlimit none{0, 0};
      setrlimit(RLIMIT_CORE, &none);
      Process(injection, board, i).run();
      _exit(0);
    }
    pids.push_back(pid);
  }
  const std::chrono::duration<double> now = std::chrono::steady_clock::now().time_since_epoch();
  bool killed = false;
  for (const pid_t pid : pids) {
    const std::string how = how_it_ended(pid, now.count() + seconds, &killed);
    if (how.empty()) continue;
    board.complain(fmt::format("a process {}", how));
    if (std::getenv("RONDO_FAULTS_STOP") != nullptr) pause();  // for a debugger
    killed = true;
    for (const pid_t each : pids) kill(each, SIGKILL);
    int status = 0;
    if (how == "hung") waitpid(pid, &status, 0);
  }
  Verdict verdict{board.fired.load(), board.calls.load(), board.complaint};
  munmap(shared, sizeof(Board));
  return verdict;
}

}  // namespace rondo::test
