// SPDX-License-Identifier: Apache-2.0
// ThreadPool: for_each(count, work) runs work(0) .. work(count - 1) on the pool's threads and the
// caller's, and returns when all are done. With one thread it is a plain loop.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace train {

class ThreadPool {
 public:
  explicit ThreadPool(int threads) {
    for (int i = 1; i < threads; ++i) threads_.emplace_back([this] { serve(); });
  }
  ~ThreadPool() {
    {
      std::lock_guard lock(mutex_);
      closing_ = true;
    }
    started_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  void for_each(int count, const std::function<void(int)>& work) {
    if (threads_.empty() || count < 2) {
      for (int i = 0; i < count; ++i) work(i);
      return;
    }
    {
      std::lock_guard lock(mutex_);
      work_ = &work;
      count_ = count;
      next_ = 0;
      busy_ = static_cast<int>(threads_.size());
      ++round_;
    }
    started_.notify_all();
    take_part(work, count);
    std::unique_lock lock(mutex_);
    finished_.wait(lock, [this] { return busy_ == 0; });
  }

 private:
  void take_part(const std::function<void(int)>& work, int count) {
    for (int i = next_++; i < count; i = next_++) work(i);
  }

  void serve() {
    std::unique_lock lock(mutex_);
    for (long seen = 0;;) {
      started_.wait(lock, [&] { return closing_ || round_ != seen; });
      if (closing_) return;
      seen = round_;
      const auto* work = work_;
      const int count = count_;
      lock.unlock();
      take_part(*work, count);
      lock.lock();
      if (--busy_ == 0) finished_.notify_one();
    }
  }

  std::vector<std::thread> threads_;
  std::mutex mutex_;
  std::condition_variable started_, finished_;
  const std::function<void(int)>* work_ = nullptr;
  std::atomic<int> next_{0};
  int count_ = 0, busy_ = 0;
  long round_ = 0;
  bool closing_ = false;
};

}  // namespace train
