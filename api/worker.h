// Worker: one thread that runs jobs in the order in which they were pushed.
//
// Guarantees: the thread is started by the first job; drain() returns when all jobs pushed before
// it have run; destruction drains. Jobs must not throw.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace rondo::api {

class Worker {
 public:
  using Job = std::function<void()>;

  Worker() = default;
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  void push(Job job);
  void drain();
  bool idle() const;

 private:
  void loop();

  mutable std::mutex mutex_;
  std::condition_variable wake_, finished_;
  std::deque<Job> jobs_;
  std::uint64_t pushed_ = 0;
  std::uint64_t done_ = 0;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace rondo::api
