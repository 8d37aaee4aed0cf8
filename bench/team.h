// SPDX-License-Identifier: Apache-2.0
// BenchProcesses, BenchThreads: the measuring threads of all processes exchange a few bytes without
// the library under test (which may be broken).
//
// Member number = process * threads + thread. all_gather() is also the barrier. All waits are
// bounded: they fail if a member dies or fails, or after `deadline` if a member does not arrive.
// Cost: within a process a mutex and a condition variable; between processes one message to process
// 0 and one back, tens of microseconds. Do not use it inside a measured loop.
//
//   RONDO_TRY(auto processes, BenchProcesses::meet(launch, 60));
//   BenchThreads team(*processes, 2);          // then, in thread t:
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

class BenchProcesses {
 public:
  // All launch.size processes call this; with one it returns at once. Times in seconds.
  static Result<std::unique_ptr<BenchProcesses>> meet(const rondo_launch_t& launch, double timeout,
                                                      double deadline = 3600);

  ~BenchProcesses();
  BenchProcesses(const BenchProcesses&) = delete;
  BenchProcesses& operator=(const BenchProcesses&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  // Every process passes bytes and receives those of all processes, in rank order.
  Result<std::vector<std::string>> all_gather(const std::string& mine);
  // Of later calls. Not while a call is under way.
  void set_deadline(double seconds) { deadline_ = seconds; }

 private:
  BenchProcesses(int rank, int size, double deadline)
      : rank_(rank), size_(size), deadline_(deadline) {}

  int rank_, size_;
  double deadline_;
  rondoLaunch_t launch_ = nullptr;  // nullptr with one process
};

class BenchThreads {
 public:
  BenchThreads(BenchProcesses& processes, int threads)
      : processes_(processes), threads_(threads), mine_(static_cast<std::size_t>(threads)) {}

  int size() const { return processes_.size() * threads_; }
  int member(int thread) const { return processes_.rank() * threads_ + thread; }

  Result<std::vector<std::string>> all_gather(int thread, std::string bytes);
  Status barrier(int thread);
  // This thread gives up: all_gather returns this error on the other threads of the process.
  void leave(const Error& why);

 private:
  BenchProcesses& processes_;
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
