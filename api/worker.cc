#include "api/worker.h"

#include <pthread.h>

#include <utility>

namespace rondo::api {

Worker::~Worker() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
    wake_.notify_one();
  }
  if (thread_.joinable()) thread_.join();
}

void Worker::push(Job job) {
  std::lock_guard lock(mutex_);
  jobs_.push_back(std::move(job));
  ++pushed_;
  if (!thread_.joinable()) thread_ = std::thread([this] { loop(); });
  wake_.notify_one();
}

void Worker::drain() {
  std::unique_lock lock(mutex_);
  const std::uint64_t target = pushed_;
  finished_.wait(lock, [&] { return done_ >= target; });
}

bool Worker::idle() const {
  std::lock_guard lock(mutex_);
  return done_ == pushed_;
}

void Worker::loop() {
  pthread_setname_np(pthread_self(), "rondo-worker");
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_.wait(lock, [&] { return stop_ || !jobs_.empty(); });
    if (jobs_.empty()) return;
    Job job = std::move(jobs_.front());
    jobs_.pop_front();
    lock.unlock();
    job();
    job = nullptr;  // what the job held is free before drain() returns
    lock.lock();
    ++done_;
    finished_.notify_all();
  }
}

}  // namespace rondo::api
