// SPDX-License-Identifier: Apache-2.0
// Proxy: the progress thread of a rank on a GPU. It does the host work of streams and kernels:
// transfers of slots to and from other hosts, steps of calls, control messages.
//
// Each kind of work is a ProxyTask, which does what it can at every turn and does not wait. A task
// that documents that it waits must call turn() meanwhile, so the others continue. The thread spins
// while something moves. While a task is busy, and for 5 ms after, it yields its core between turns
// and never sleeps. Then it naps on the tasks' descriptors, until ring(), but at most 1 ms at a
// time: a kernel can write a word, but not wake a thread. Replays of graphs begin without a ring;
// where they are expected, a nap takes at most 50 us. Guarantees: tasks run only on this thread,
// never one inside itself; after stop() all have finished. Cost: a thread, and its core while a
// task is busy; ring() is a load while the thread does not nap, otherwise a system call.
//
//   Proxy proxy;  proxy.add(slots);  RONDO_CHECK_OK(proxy.open());
//   ...proxy.turn() by hand, as long as there is no thread...
//   RONDO_CHECK_OK(proxy.start());  ...  proxy.ring();  ...  proxy.stop();
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "base/thread.h"
#include "transport/net/sleeper.h"

namespace rondo::gpu {

class ProxyTask : public net::WakeSource {
 public:
  ~ProxyTask() override = default;
  // Does what can be done now; true if something moved.
  virtual bool progress() = 0;
  virtual bool is_busy() const { return false; }  // more work is expected: do not sleep
  bool arm() override { return true; }
  int poll_fd() const override { return -1; }
  // Called after the last turn, on the same thread, for final messages. It can wait for seconds.
  virtual void finish() {}
};

class Proxy {
 public:
  Proxy() = default;
  ~Proxy() { stop(); }
  Proxy(const Proxy&) = delete;
  Proxy& operator=(const Proxy&) = delete;

  void add(ProxyTask& task) { tasks_.push_back({&task}); }  // before start()
  Status open();
  Status start();
  void stop();    // waits until all tasks have finished, in the order of add()
  void forget();  // in a forked child, which does not have the thread
  bool runs() const { return thread_.joinable(); }
  bool stops() const { return stop_.load(std::memory_order_relaxed); }

  // Wakes the thread, because there is work. Can be called by any thread.
  void ring();
  // From now on work may begin without a ring. Any thread.
  void expect_replays() { replays_.store(true, std::memory_order_relaxed); }
  // Number of naps so far. Any thread.
  std::uint64_t naps() const { return naps_taken_.load(std::memory_order_relaxed); }
  // Runs every task once, except those that are already running. Called by the proxy's own thread,
  // or by its owner before that thread starts. True if something moved.
  bool turn();
  // Sleeps until a task's descriptor is readable or ring() is called (true), at most for `at_most`.
  // Does not sleep if a task can move now.
  bool nap(std::chrono::nanoseconds at_most);

 private:
  struct Entry {
    ProxyTask* task;
    bool under_way = false;
  };
  void serve();
  bool any_busy() const;

  std::vector<Entry> tasks_;
  Fd bell_;  // an eventfd, rung while the thread naps
  std::atomic<bool> naps_{false}, stop_{false}, replays_{false};
  std::atomic<std::uint64_t> naps_taken_{0};
  Thread thread_;
};

}  // namespace rondo::gpu
