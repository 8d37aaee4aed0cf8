#include "collectives/host/host_stream.h"

#include "base/process.h"

namespace rondo {
namespace {

thread_local bool serving = false;

}  // namespace

bool HostStream::serves_here() { return serving; }

HostStream::HostStream() : made_in_(fork_generation()) {}

Result<std::unique_ptr<HostStream>> HostStream::open() {
  std::unique_ptr<HostStream> made(new HostStream);
  RONDO_TRY(made->thread_,
            Thread::start(
                "a stream", [stream = made.get()] { stream->serve(); }, [](const Error&) {}));
  return made;
}

HostStream::~HostStream() {
  if (!thread_.joinable()) return;
  if (made_in_ != fork_generation()) {
    thread_.detach();  // the thread exists only in the parent
    return;
  }
  {
    std::lock_guard lock(mutex_);
    closing_ = true;
  }
  work_arrived_.notify_one();
  if (on_this_thread()) {
    thread_.detach();
  } else {
    thread_.join();
  }
}

Status HostStream::submit(std::function<Status()> work) {
  if (made_in_ != fork_generation())
    return fail(StatusCode::kInvalidUsage,
                "this stream belongs to the parent process: after fork, create a new one");
  {
    std::lock_guard lock(mutex_);
    queue_.push_back(std::move(work));
    ++submitted_;
  }
  work_arrived_.notify_one();
  return ok_status();
}

Status HostStream::record(std::shared_ptr<Completion> completion) {
  return submit([this, completion = std::move(completion)] {
    completion->finish(std::exchange(error_to_record_, ok_status()));
    return ok_status();
  });
}

Status HostStream::synchronize() {
  std::unique_lock lock(mutex_);
  const std::uint64_t target = submitted_;
  work_done_.wait(lock, [&] { return finished_ >= target; });
  return std::exchange(first_error_, ok_status());
}

Status HostStream::first_error() const {
  std::lock_guard lock(mutex_);
  return first_error_;
}

bool HostStream::idle() const {
  std::lock_guard lock(mutex_);
  return finished_ == submitted_;
}

void HostStream::serve() {
  serving = true;
  std::unique_lock lock(mutex_);
  for (;;) {
    work_arrived_.wait(lock, [&] { return closing_ || !queue_.empty(); });
    if (queue_.empty()) return;
    std::function<Status()> work = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    Status result = guarded("the work of a stream", work);
    work = nullptr;  // captured objects are destroyed here, outside the lock
    if (!result.ok() && error_to_record_.ok()) error_to_record_ = copy_of(result.error());
    lock.lock();
    ++finished_;
    if (!result.ok() && first_error_.ok()) first_error_ = std::move(result);
    work_done_.notify_all();
  }
}

}  // namespace rondo
