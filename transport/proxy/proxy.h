// Proxy: the progress thread of a rank on a GPU. It does what streams and kernels ask of the host:
// slots to and from other hosts, steps of calls, control messages.
//
// Each of these is a ProxyTask, which does what it can at every turn and never waits, but for tasks
// that say so: while one of them waits it calls turn() itself, and the others go on. The thread
// spins while something moves, then yields, then naps on the tasks' descriptors: 50 microseconds at
// a time while a task is busy and for 5 ms after, else a millisecond, until ring(). Guarantees:
// tasks run on this thread alone, never one inside itself; after stop() all have finished. Cost: a
// thread; ring() is a load while it does not nap, else a system call.
//
//   Proxy proxy;  proxy.add(slots);  RONDO_CHECK_OK(proxy.open());
//   ...proxy.turn() by hand, as long as there is no thread...
//   RONDO_CHECK_OK(proxy.start());  ...  proxy.ring();  ...  proxy.stop();
#pragma once

#include <atomic>
#include <chrono>
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
  virtual bool is_busy() const { return false; }  // there will soon be more
  bool arm() override { return true; }
  int poll_fd() const override { return -1; }
  // After the last turn, on the same thread: what must still be said. It may wait for seconds.
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
  void stop();    // and waits until all tasks have finished; they do so in the order of add()
  void forget();  // in a forked child: the thread is the parent's
  bool runs() const { return thread_.joinable(); }
  bool stops() const { return stop_.load(std::memory_order_relaxed); }

  // Any thread: there is something to do.
  void ring();
  // Runs every task once, except those that are already running. Called by the proxy's own thread,
  // or by its owner before that thread starts. True if something moved.
  bool turn();
  // Sleeps until a task's descriptor is readable or somebody rings (true), and no longer than that;
  // not at all where something of a task moves now.
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
  std::atomic<bool> naps_{false}, stop_{false};
  Thread thread_;
};

}  // namespace rondo::gpu
