// SPDX-License-Identifier: Apache-2.0
// Ranks in separate processes, one or several per process. Create it before this process makes any
// communicator or touches a device, because no driver survives fork().
//
//   RankProcesses ranks(4, options, [](EngineRank& seat) { seat.report(seat.comm->run(...)); });
//   ranks.wait_stage(1);  ranks.send(2, SIGKILL);  ranks.wait_reports({2});
//   EXPECT_EQ(ranks.status(0), StatusCode::kRemoteError) << ranks.text(0);
//   run_job(as_processes(4, Gpus::kOneEach), [](NcclRank& seat) { NCCL_OK(ncclAllReduce(...)); });
// Guarantees: every wait ends after kLongestWait; the destructor kills and reaps every process that
// still runs. A failed gtest assertion in a process is a failed expectation of its ranks. A wait in
// which an expectation fails kills all processes at once and says which rank it was.
#pragma once

#include <sys/types.h>

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "tests/support/ranks.h"

namespace rondo::test {

// Ends a forked process by exit(). A sanitizer does not look for leaks there: it would report
// what threads own that only the parent has.
[[noreturn]] void exit_of_fork(int status);

class RankProcesses {
 public:
  // body: void(R&), which each rank runs on its own thread, or void(Ranks<R>&), which each process
  // runs once.
  template <class Body>
  RankProcesses(const Job& job, const Body& body) : board_(job.ranks()) {
    start(job, [&](int process) {
      return BodyOf<typename Taken<Body>::Type>::run(board(), job, process, body);
    });
  }
  // n processes of one rank each, on host memory.
  template <class Body>
  RankProcesses(int n, const Job& job, const Body& body) : RankProcesses(of(n, job), body) {}
  ~RankProcesses();
  RankProcesses(const RankProcesses&) = delete;
  RankProcesses& operator=(const RankProcesses&) = delete;

  int size() const { return board_.get().ranks; }
  Board& board() { return board_.get(); }
  pid_t pid(int rank) const { return pids_[process_of_[rank]]; }
  void send(int rank, int signal);  // after SIGSTOP: once the rank has stopped

  // Wait for all ranks except `without`. False (and a test failure) after kLongestWait.
  bool wait_stage(int stage, const std::set<int>& without = {});
  bool wait_reports(const std::set<int>& without = {});
  bool wait_exits(const std::set<int>& without = {});  // with status 0

  StatusCode status(int rank) const { return static_cast<StatusCode>(seat(rank).status); }
  std::string text(int rank) const { return seat(rank).text; }
  int culprit(int rank) const { return seat(rank).culprit; }
  bool reported(int rank) const { return seat(rank).reported.load() != 0; }
  // Reports every failed expectation of the bodies as a test failure.
  void check_expectations();

 private:
  static Job of(int n, Job job) {
    job.processes = as_processes(n).processes;
    return job;
  }
  using ProcessBody = std::function<std::shared_ptr<void>(int process)>;
  void start(const Job& job, const ProcessBody& body);
  [[noreturn]] void run_process(int process, const Job& job, const ProcessBody& body);
  bool wait_for(const std::function<bool(int)>& holds, const std::set<int>& without,
                const char* what);
  bool reap(int process);
  void end_all();
  int asserted() const;  // the first rank with a failed expectation, or -1
  BoardSeat& seat(int rank) const { return board_.get().seats[rank]; }

  SharedBoard board_;
  std::vector<int> process_of_;  // per rank
  std::vector<pid_t> pids_;
  std::vector<int> exit_status_;  // as waitpid returns it, or -1 while it runs
  bool all_ended_ = false;        // because of a failed expectation
};

// Runs a job in which every rank must exit.
template <class Body>
void run_job(const Job& job, const Body& body) {
  RankProcesses ranks(job, body);
  ranks.wait_exits();
  ranks.check_expectations();
}

}  // namespace rondo::test
