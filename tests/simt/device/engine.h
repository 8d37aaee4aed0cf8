// SPDX-License-Identifier: Apache-2.0
// Engine: the part of the emulated devices that runs by itself.
//
// Each device has K hardware queues, each strictly in order: a command begins when the one before
// it in its queue and all its dependencies have finished, so streams that share a queue delay each
// other. That is the weakest behaviour that CUDA allows. The seed chooses which queue or GPU thread
// runs next. Processes that share a device take turns on it (slices.h). Runs on its own thread,
// started for the first command, or inside wait() where the config says so.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "tests/simt/device/command.h"
#include "tests/simt/device/config.h"
#include "tests/simt/device/slices.h"
#include "tests/simt/machine/gang.h"

namespace rondo::simt {

class Engine {
 public:
  Engine(AddressSpace& memory, const Config& config);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // The platform's mutex: guards queues and everything in command.h.
  std::mutex& mutex() { return mutex_; }
  Random& random() { return random_; }  // under the mutex
  int queue_for_stream(int device);     // of a new one, under the mutex
  void give_back_queue(int device, int queue);
  int queue_for_node(int of_stream);  // of a graph that is launched there, under the mutex
  void push(CommandRef command);      // under the mutex
  // True if all queues of a device have room; a launched graph takes the room of one command.
  bool has_room(int device) const;
  // Returns when `done()`, which is called under the mutex, is true.
  void wait(std::unique_lock<std::mutex>& lock, const std::function<bool()>& done);
  // Runs a host function on a separate thread, in call order.
  void call_host(std::function<void()> function);
  // How often a standstill has been printed.
  int standstills() const { return standstills_; }
  // For the steps of commands: on the engine's thread, without the mutex.
  Gang& gang() { return gang_; }
  // Ends all kernels of a device; on the engine's thread.
  void lose(int device) { gang_.drop_device(device); }

  static bool in_callback();  // true if this thread runs a host function

 private:
  bool turn();  // returns true if anything made progress
  bool begin_one();
  void report_standstill();
  void note_progress();
  void loop();
  void call_loop();

  Random random_;
  const Config config_;
  const int queues_;
  std::mutex mutex_;
  std::condition_variable pushed_, moved_;
  std::vector<std::deque<CommandRef>> queued_;  // by device * queues_ + queue
  // By device, if streams have queues of their own: those without one, the longest unused first.
  std::vector<std::vector<int>> free_;
  std::size_t commands_ = 0;
  std::uint64_t made_ = 0;                            // number of commands made
  std::chrono::steady_clock::time_point moved_at_{};  // when a command was last made or finished
  bool reported_ = false;                             // the current standstill has been printed
  std::atomic<int> standstills_{0};
  bool stop_ = false;
  Gang gang_;
  Random engine_random_;
  Slices slices_;
  std::thread thread_;

  std::mutex call_mutex_;
  std::condition_variable call_;
  std::deque<std::function<void()>> calls_;
  bool calls_stop_ = false;
  std::thread caller_;
};

}  // namespace rondo::simt
