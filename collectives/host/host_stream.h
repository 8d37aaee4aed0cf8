// SPDX-License-Identifier: Apache-2.0
// HostStream: a queue of work that runs in order, on a thread of its own or on one that waits for
// it. The host's equivalent of a CUDA stream.
//
// Guarantees: work runs in the order of submit(), one at a time; synchronize() returns when all
// work submitted before it has finished, with the first error since the last synchronize(); the
// destructor finishes the queue. A waiting thread runs the queue itself (synchronize(),
// run_until()) unless the stream's thread has begun: no switch of threads. Cost: a mutex per
// submit; a wake-up only if the stream has been idle for about a millisecond. Until then its thread
// looks for work every 50 us, so work that nobody waits for begins that late. A communicator's
// inline path uses none of it. A forked child has no thread: submit() then fails.
#pragma once

#include <functional>
#include <memory>

#include "base/result.h"
#include "base/thread.h"
#include "collectives/context/completion.h"

namespace rondo {

class HostStream {
  struct Queue;

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

  // Runs the queue on the caller's thread until `completion` has finished or another thread runs
  // work. A Helper may outlive its stream.
  using Helper = std::weak_ptr<Queue>;
  Helper helper() const { return queue_; }
  static void run_until(const Completion& completion, const Helper& helper);
  // The stream's thread begins now, because no thread waits that could.
  static void wake(const Helper& helper);

  // True if the caller is the thread of any stream: the program then computes at the same time.
  static bool serves_here();
  bool on_this_thread() const { return thread_.is_this_thread(); }

 private:
  HostStream();

  std::shared_ptr<Queue> queue_;
  Thread thread_;
};

}  // namespace rondo
