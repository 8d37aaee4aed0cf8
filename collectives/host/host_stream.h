// HostStream: a queue of work and the thread that runs it in order. The host's equivalent of a CUDA
// stream.
//
// Guarantees: work runs in the order of submit(); synchronize() returns when all work submitted
// before it has finished, with the first error since the last synchronize(); the destructor
// finishes the queue. Cost: a mutex and possibly a wake-up per submit; a communicator's inline path
// uses none of it. A forked child has no thread: submit() then fails.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>

#include "base/result.h"
#include "base/thread.h"
#include "collectives/communicator/completion.h"

namespace rondo {

class HostStream {
 public:
  static Result<std::unique_ptr<HostStream>> open();
  ~HostStream();
  HostStream(const HostStream&) = delete;
  HostStream& operator=(const HostStream&) = delete;

  Status submit(std::function<Status()> work);
  // Finishes `completion` when all work submitted before it has finished, with the first error
  // since the last record().
  Status record(std::shared_ptr<Completion> completion);
  Status synchronize();
  Status first_error() const;  // what synchronize() would return; does not clear it
  bool idle() const;           // all submitted work has finished
  // True if the caller is the thread of any stream: the program then computes at the same time.
  static bool serves_here();
  bool on_this_thread() const { return thread_.is_this_thread(); }

 private:
  HostStream();
  void serve();

  mutable std::mutex mutex_;
  std::condition_variable work_arrived_, work_done_;
  std::deque<std::function<Status()>> queue_;
  std::uint64_t submitted_ = 0, finished_ = 0;
  Status first_error_;
  Status error_to_record_;  // used only by the serving thread
  bool closing_ = false;
  std::uint32_t made_in_;
  Thread thread_;
};

}  // namespace rondo
