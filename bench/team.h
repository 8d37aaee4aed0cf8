// Team: the threads that measure, in all processes, exchanging a few bytes beside the library that
// is being measured (which may be broken).
//
// Members are numbered process * threads + thread. all_gather() is also the barrier. Bounded: a
// member that dies or fails ends the waits of all with an error; silence does after `deadline`.
// Cost: within a process a mutex and a condition variable; between processes one message to process
// 0 and one back, some tens of microseconds. Never inside a measured loop.
//
//   RONDO_TRY(auto processes, ProcessTeam::meet(launch, 60));
//   ThreadTeam team(*processes, 2);          // then, in thread t:
//   RONDO_TRY(auto all, team.all_gather(t, my_bytes));
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "api/launch_env.h"
#include "base/result.h"

namespace rondo::bench {

class ProcessTeam {
 public:
  // Of launch.size processes, which all call this; at once where that is 1. Seconds.
  static Result<std::unique_ptr<ProcessTeam>> meet(const rondo_launch_t& launch, double timeout,
                                                   double deadline = 3600);

  ~ProcessTeam();
  ProcessTeam(const ProcessTeam&) = delete;
  ProcessTeam& operator=(const ProcessTeam&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  // Every process gives bytes, every process gets all of them in rank order.
  Result<std::vector<std::string>> all_gather(const std::string& mine);

 private:
  ProcessTeam(int rank, int size, double deadline)
      : rank_(rank), size_(size), deadline_(deadline) {}

  int rank_, size_;
  double deadline_;
  rondoLaunch_t launch_ = nullptr;  // where there are several processes
};

class ThreadTeam {
 public:
  ThreadTeam(ProcessTeam& processes, int threads)
      : processes_(processes), threads_(threads), mine_(static_cast<std::size_t>(threads)) {}

  int size() const { return processes_.size() * threads_; }
  int member(int thread) const { return processes_.rank() * threads_ + thread; }

  Result<std::vector<std::string>> all_gather(int thread, std::string bytes);
  Status barrier(int thread);
  // This thread gives up: the others of the process return this error from all_gather.
  void leave(const Error& why);

 private:
  ProcessTeam& processes_;
  const int threads_;
  std::mutex mutex_;
  std::condition_variable turn_;
  std::vector<std::string> mine_;
  std::vector<std::string> all_;
  int arrived_ = 0;
  std::uint64_t round_ = 0;
  bool failed_ = false;
  Error error_;
};

}  // namespace rondo::bench
