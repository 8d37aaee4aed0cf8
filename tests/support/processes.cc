// SPDX-License-Identifier: Apache-2.0
#include "tests/support/processes.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace {
bool ends_as_fork = false;
}  // namespace

// Called by the sanitizer of leaks when a process ends.
extern "C" __attribute__((visibility("default"))) int __lsan_is_turned_off();
int __lsan_is_turned_off() { return ends_as_fork ? 1 : 0; }

namespace rondo::test {

void exit_of_fork(int status) {
  ends_as_fork = true;
  std::exit(status);
}

namespace {

std::string line_of(const std::filesystem::path& file) {
  std::string line;
  std::ifstream stream(file);
  std::getline(stream, line);
  return line;
}

// Puts each failed assertion of gtest on the board as soon as it fails: other ranks may wait for
// the rank that left its body.
class AssertionsOnBoard : public testing::EmptyTestEventListener {
 public:
  using Report = std::function<void(const std::string&)>;
  explicit AssertionsOnBoard(Report report) : report_(std::move(report)) {}
  void OnTestPartResult(const testing::TestPartResult& result) override {
    if (!result.failed()) return;
    const char* const file = result.file_name() == nullptr ? "?" : result.file_name();
    report_(file + (':' + std::to_string(result.line_number()) + ": ") + result.message());
  }

 private:
  const Report report_;
};

// Name of each thread, and the kernel function in which it waits; 0: it runs.
std::string threads_of(pid_t pid) {
  std::string text;
  std::error_code none;
  const std::filesystem::path tasks = "/proc/" + std::to_string(pid) + "/task";
  for (const auto& task : std::filesystem::directory_iterator(tasks, none))
    text += ", " + line_of(task.path() / "comm") + " in " + line_of(task.path() / "wchan");
  return text;
}

}  // namespace

// ---- in a process of the job ----

void RankProcesses::run_process(int process, const Job& job, const ProcessBody& body) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  for (const auto& [name, value] : job.environment) setenv(name.c_str(), value.c_str(), 1);
  if (!job.of_process.empty())
    for (const auto& [name, value] : job.of_process[process])
      setenv(name.c_str(), value.c_str(), 1);
  if (!job.hosts.empty()) setenv("NCCL_HOSTID", job.hosts[process].c_str(), 1);
  testing::UnitTest::GetInstance()->listeners().Append(
      new AssertionsOnBoard([this, process](const std::string& text) {
        for (int rank = 0; rank < size(); ++rank)
          if (process_of_[rank] == process)
            RankSeat(board(), rank, kHostMemory).expect(false, "its process: " + text);
      }));
  if (process == 0) board().make_id();
  board().wait_id();
  std::shared_ptr<void> ranks = body(process);
  if (!job.leave_by_exit) _exit(0);
  ranks.reset();
  exit_of_fork(0);
}

// ---- in the test's process ----

void RankProcesses::start(const Job& job, const ProcessBody& body) {
  const int processes = static_cast<int>(job.processes.size());
  for (int p = 0; p < processes; ++p)
    process_of_.insert(process_of_.end(), job.processes[p].size(), p);
  pids_.assign(processes, -1);
  exit_status_.assign(processes, -1);
  for (int p = 0; p < processes; ++p) {
    const pid_t pid = fork();
    if (pid == 0) run_process(p, job, body);
    pids_[p] = pid;
  }
}

RankProcesses::~RankProcesses() { end_all(); }

void RankProcesses::end_all() {
  for (std::size_t p = 0; p < pids_.size(); ++p) {
    if (reap(static_cast<int>(p))) continue;
    kill(pids_[p], SIGKILL);
    while (waitpid(pids_[p], &exit_status_[p], 0) < 0 && errno == EINTR) {
    }
  }
}

int RankProcesses::asserted() const {
  for (int rank = 0; rank < size(); ++rank)
    if (seat(rank).failures.load() != 0) return rank;
  return -1;
}

void RankProcesses::send(int rank, int signal) {
  if (reap(process_of_[rank])) return;
  kill(pid(rank), signal);
  const auto has_stopped = [&] {
    siginfo_t found{};
    const int asked =
        waitid(P_PID, static_cast<id_t>(pid(rank)), &found, WSTOPPED | WNOHANG | WNOWAIT);
    return asked != 0 || found.si_pid != 0;  // or it is no child of this process
  };
  if (signal == SIGSTOP) wait_until(has_stopped);
}

bool RankProcesses::reap(int process) {
  if (exit_status_[process] >= 0) return true;
  int status = 0;
  if (waitpid(pids_[process], &status, WNOHANG) != pids_[process]) return false;
  exit_status_[process] = status;
  return true;
}

bool RankProcesses::wait_for(const std::function<bool(int)>& holds, const std::set<int>& without,
                             const char* what) {
  if (all_ended_) return false;
  int failed = -1;  // ended before it reached the condition; what it did just before its end counts
  int asserted = -1;
  const auto is_over = [&] {
    asserted = this->asserted();
    bool all_hold = true;
    for (int rank = 0; rank < size() && failed < 0; ++rank) {
      if (without.count(rank) != 0) continue;
      const bool ended = reap(process_of_[rank]);
      const bool held = holds(rank);
      if (ended && !held) failed = rank;
      all_hold = all_hold && held;
    }
    if (all_hold) asserted = -1;
    return all_hold || failed >= 0 || asserted >= 0;
  };
  const bool in_time = wait_until(is_over);
  if (asserted >= 0) {
    all_ended_ = true;
    end_all();
    ADD_FAILURE() << "rank " << asserted << " of " << size() << " failed before all did " << what
                  << ", so all were ended: " << seat(asserted).failure;
    return false;
  }
  if (in_time && failed < 0) return true;
  for (int rank = 0; failed < 0 && rank < size(); ++rank)
    if (without.count(rank) == 0 && !holds(rank)) failed = rank;
  if (failed < 0) return true;  // reached it just now
  const bool ended = reap(process_of_[failed]);
  std::string text;
  if (ended)
    text = " ended with wait status " + std::to_string(exit_status_[process_of_[failed]]) + " and";
  text += std::string(" did not ") + what;
  if (!in_time) text += " within " + std::to_string(kLongestWait) + " s";
  for (int rank = 0; rank < size(); ++rank)
    text += "\n  rank " + std::to_string(rank) + ": stage " +
            std::to_string(seat(rank).stage.load()) + (reported(rank) ? ", has reported" : "") +
            (reap(process_of_[rank]) ? ", has ended" : threads_of(pid(rank)));
  ADD_FAILURE() << "rank " << failed << " of " << size() << text << "\n  " << seat(failed).failure;
  return false;
}

bool RankProcesses::wait_stage(int stage, const std::set<int>& without) {
  return wait_for([&](int r) { return seat(r).stage.load() >= stage; }, without,
                  "get to its stage");
}

bool RankProcesses::wait_reports(const std::set<int>& without) {
  return wait_for([&](int r) { return reported(r); }, without, "report");
}

bool RankProcesses::wait_exits(const std::set<int>& without) {
  if (!wait_for([&](int r) { return reap(process_of_[r]); }, without, "exit")) return false;
  bool well = true;
  for (int rank = 0; rank < size(); ++rank) {
    const int status = exit_status_[process_of_[rank]];
    if (without.count(rank) != 0 || status == 0) continue;
    ADD_FAILURE() << "rank " << rank << " ended with wait status " << status;
    well = false;
  }
  return well;
}

void RankProcesses::check_expectations() {
  for (int rank = 0; rank < size(); ++rank)
    EXPECT_EQ(seat(rank).failures.load(), 0) << "rank " << rank << ": " << seat(rank).failure;
}

}  // namespace rondo::test
