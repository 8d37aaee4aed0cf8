#include "tests/support/processes.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>

namespace rondo::test {

// ---- in a process of the job ----

void RankProcesses::run_process(int process, const Job& job, const ProcessBody& body) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  for (const auto& [name, value] : job.environment) setenv(name.c_str(), value.c_str(), 1);
  if (!job.hosts.empty()) setenv("NCCL_HOSTID", job.hosts[process].c_str(), 1);
  if (process == 0) board().make_id();
  board().wait_id();
  std::shared_ptr<void> ranks = body(process);
  if (testing::Test::HasFailure())
    for (int rank = 0; rank < size(); ++rank)
      if (process_of_[rank] == process)
        RankSeat(board(), rank, kHostMemory)
            .expect(false, "an assertion failed in its process (printed above)");
  if (!job.leave_by_exit) _exit(0);
  ranks.reset();
  std::exit(0);
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

RankProcesses::~RankProcesses() {
  for (std::size_t p = 0; p < pids_.size(); ++p) {
    if (reap(static_cast<int>(p))) continue;
    kill(pids_[p], SIGKILL);
    while (waitpid(pids_[p], nullptr, 0) < 0 && errno == EINTR) {
    }
  }
}

void RankProcesses::send(int rank, int signal) {
  if (!reap(process_of_[rank])) kill(pid(rank), signal);
}

bool RankProcesses::reap(int process) {
  if (exit_status_[process] >= 0) return true;
  int status = 0;
  if (waitpid(pids_[process], &status, WNOHANG) != pids_[process]) return false;
  exit_status_[process] = status;
  return true;
}

bool RankProcesses::wait_for(const std::function<bool(int)>& holds, double seconds,
                             const std::set<int>& without, const char* what) {
  const auto begun = std::chrono::steady_clock::now();
  for (int rank = 0; rank < size(); ++rank) {
    if (without.count(rank) != 0) continue;
    const int process = process_of_[rank];
    bool ended = false;
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - begun;
    // What a process did just before its end counts.
    const bool in_time = wait_until([&] { return holds(rank) || (ended = reap(process)); },
                                    seconds - passed.count());
    if (holds(rank)) continue;
    ADD_FAILURE() << "rank " << rank << " of " << size()
                  << (ended ? " ended with wait status " + std::to_string(exit_status_[process]) +
                                  " and"
                            : "")
                  << " did not " << what
                  << (in_time ? "" : " within " + std::to_string(seconds) + " s") << " (stage "
                  << seat(rank).stage.load() << ", " << seat(rank).failure << ")";
    return false;
  }
  return true;
}

bool RankProcesses::wait_stage(int stage, double seconds, const std::set<int>& without) {
  return wait_for([&](int r) { return seat(r).stage.load() >= stage; }, seconds, without,
                  "get to its stage");
}

bool RankProcesses::wait_reports(double seconds, const std::set<int>& without) {
  return wait_for([&](int r) { return reported(r); }, seconds, without, "report");
}

bool RankProcesses::wait_exits(double seconds, const std::set<int>& without) {
  if (!wait_for([&](int r) { return reap(process_of_[r]); }, seconds, without, "exit"))
    return false;
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
