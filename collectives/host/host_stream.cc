// SPDX-License-Identifier: Apache-2.0
#include "collectives/host/host_stream.h"

#include <cassert>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <utility>

#include "base/process.h"

namespace rondo {
namespace {

// To wake a thread costs its waker 10 us and begins after 30 to 60 us; a nap costs a few.
constexpr std::chrono::microseconds kNap{50};
constexpr int kNaps = 10;  // without any work, before the thread sleeps until it is woken

thread_local bool serving = false;

}  // namespace

struct HostStream::Queue {
  using Lock = std::unique_lock<std::mutex>;

  // Runs the oldest work with the lock released. False if there is none, or another thread runs it.
  bool run_one(Lock& lock);
  void serve();
  // True if the stream's thread must be told of what has changed.
  bool must_wake() const { return asleep && !running && (closing || !waiting.empty()); }

  mutable std::mutex mutex;
  std::condition_variable work_arrived, work_done;
  std::deque<std::function<Status()>> waiting;
  std::uint64_t submitted = 0, finished = 0;
  Status first_error;
  Status error_to_record;  // used only by the thread that runs work
  bool running = false, asleep = false, closing = false;
  const std::uint32_t made_in = fork_generation();
};

bool HostStream::Queue::run_one(Lock& lock) {
  if (running || waiting.empty()) return false;
  std::function<Status()> work = std::move(waiting.front());
  waiting.pop_front();
  running = true;
  lock.unlock();
  Status result = guarded("the work of a stream", work);
  work = nullptr;  // captured objects are destroyed here, outside the lock
  if (!result.ok() && error_to_record.ok()) error_to_record = copy_of(result.error());
  lock.lock();
  running = false;
  ++finished;
  assert(finished + waiting.size() == submitted);
  if (!result.ok() && first_error.ok()) first_error = std::move(result);
  work_done.notify_all();
  return true;
}

void HostStream::Queue::serve() {
  serving = true;
  Lock lock(mutex);
  std::uint64_t seen = 0;  // work submitted and finished before the last nap
  for (int naps = kNaps;;) {
    if (run_one(lock)) {
      naps = 0;
      continue;
    }
    if (closing && !running) return;
    if (std::exchange(seen, submitted + finished) != submitted + finished) naps = 0;
    if (naps < kNaps) {
      work_arrived.wait_for(lock, kNap);
      ++naps;
      continue;
    }
    asleep = true;
    work_arrived.wait(lock, [this] { return must_wake(); });
    asleep = false;
  }
}

bool HostStream::serves_here() { return serving; }

HostStream::HostStream() : queue_(std::make_shared<Queue>()) {}

Result<std::unique_ptr<HostStream>> HostStream::open() {
  std::unique_ptr<HostStream> made(new HostStream);
  RONDO_TRY(made->thread_,
            Thread::start(
                "a stream", [queue = made->queue_] { queue->serve(); }, [](const Error&) {}));
  return made;
}

HostStream::~HostStream() {
  if (!thread_.joinable()) return;
  if (queue_->made_in != fork_generation()) {
    thread_.detach();  // the thread exists only in the parent
    return;
  }
  {
    std::lock_guard lock(queue_->mutex);
    queue_->closing = true;
  }
  queue_->work_arrived.notify_one();
  if (on_this_thread()) {
    thread_.detach();
  } else {
    thread_.join();
  }
}

Status HostStream::submit(std::function<Status()> work) {
  assert(work != nullptr);
  if (queue_->made_in != fork_generation())
    return fail(StatusCode::kInvalidUsage,
                "this stream belongs to the parent process: after fork, create a new one");
  bool wake;
  {
    std::lock_guard lock(queue_->mutex);
    queue_->waiting.push_back(std::move(work));
    ++queue_->submitted;
    wake = queue_->must_wake();
  }
  if (wake) queue_->work_arrived.notify_one();
  return ok_status();
}

Status HostStream::record(std::shared_ptr<Completion> completion) {
  assert(completion != nullptr && !completion->finished());
  return submit([queue = queue_.get(), completion = std::move(completion)] {
    completion->finish(std::exchange(queue->error_to_record, ok_status()));
    return ok_status();
  });
}

void HostStream::run_until(const Completion& completion, const Helper& helper) {
  const std::shared_ptr<Queue> queue = helper.lock();
  if (queue == nullptr || queue->made_in != fork_generation()) return;
  Queue::Lock lock(queue->mutex);
  while (!completion.finished() && queue->run_one(lock)) {
  }
  if (queue->must_wake()) queue->work_arrived.notify_one();
}

void HostStream::wake(const Helper& helper) {
  const std::shared_ptr<Queue> queue = helper.lock();
  if (queue == nullptr || queue->made_in != fork_generation()) return;
  bool idle;
  {
    std::lock_guard lock(queue->mutex);
    idle = queue->running || queue->waiting.empty();
  }
  if (!idle) queue->work_arrived.notify_one();
}

Status HostStream::synchronize() {
  Queue::Lock lock(queue_->mutex);
  const std::uint64_t target = queue_->submitted;
  while (queue_->finished < target && queue_->run_one(lock)) {
  }
  if (queue_->must_wake()) queue_->work_arrived.notify_one();
  queue_->work_done.wait(lock, [&] { return queue_->finished >= target; });
  return std::exchange(queue_->first_error, ok_status());
}

Status HostStream::first_error() const {
  std::lock_guard lock(queue_->mutex);
  return queue_->first_error;
}

bool HostStream::idle() const {
  std::lock_guard lock(queue_->mutex);
  return queue_->finished == queue_->submitted;
}

}  // namespace rondo
