// Engine: the part of the emulated devices that moves by itself.
//
// K hardware queues a device, each strictly in order: a command begins when the one before it in
// its queue is over and all that it comes after, so streams that share a queue hold each other up.
// That is less than any real device does and all that CUDA promises. Which queue or GPU thread goes
// on is the seed's choice. Processes that share a device take turns on it (slices.h). Runs on a
// thread of its own, made for the first command, or inside wait() where the config says so.
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
  int queues() const { return queues_; }
  Random& random() { return random_; }  // under the mutex
  void push(CommandRef command);        // under the mutex
  // Whether all queues of a device have room; a launched graph takes the room of one command.
  bool has_room(int device) const;
  // Returns when `ok_status()`, which is called under the mutex, holds.
  void wait(std::unique_lock<std::mutex>& lock, const std::function<bool()>& done);
  // A host function: runs on a thread of its own, in the order of calls; then calls `over`.
  void call_host(std::function<void()> function);
  // How often what the queues hold has been printed.
  int standstills() const { return standstills_; }
  // For commands' steps: on the engine's thread, without the mutex.
  Gang& gang() { return gang_; }
  // Ends all kernels of a device; by the engine's thread.
  void lose(int device) { gang_.drop_device(device); }

  static bool in_callback();  // whether this thread runs a host function

 private:
  bool turn();  // whether anything moved
  bool begin_one();
  void say_standstill();
  void note_progress();
  void loop();
  void call_loop();

  Random random_;
  const Config config_;
  const int queues_;
  std::mutex mutex_;
  std::condition_variable pushed_, moved_;
  std::vector<std::deque<CommandRef>> queued_;  // by device * queues_ + queue
  std::size_t commands_ = 0;
  std::uint64_t made_ = 0;                            // commands, ever
  std::chrono::steady_clock::time_point moved_at_{};  // when a command was made, or over
  bool told_ = false;                                 // of what stands still since then
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
