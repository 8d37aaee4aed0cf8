// SPDX-License-Identifier: Apache-2.0
// Gang: all kernels that run in this process, on one worker (seed mode) or several (parallel mode).
//
// It takes grids, makes their CTAs resident as room becomes free, in an order that the seed
// chooses, and gives them to workers. Seed mode: the thread that calls turn() is the worker.
// Parallel mode: its own threads run the CTAs, and turn() only assigns CTAs to them.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "tests/simt/machine/address_space.h"
#include "tests/simt/machine/room.h"
#include "tests/simt/machine/worker.h"

namespace rondo::simt {

struct GangOptions {
  Worker::Options worker;
  int threads = 0;  // 0: seed mode
  int devices = 1;
  int max_cooperative = 0;  // kernels that run at once on a device; 0: no limit
  DeviceLimits limits;
};

class Gang {
 public:
  Gang(AddressSpace& memory, const GangOptions& options);
  ~Gang();
  Gang(const Gang&) = delete;
  Gang& operator=(const Gang&) = delete;

  // Called on the thread that calls turn(). The grid must fit the device's limits.
  void start(std::shared_ptr<Grid> grid);
  Worker::Turn turn(std::uint32_t allowed = ~0u);
  bool busy(int device) const { return active_[static_cast<std::size_t>(device)] > 0; }
  const Room& room(int device) const { return rooms_[static_cast<std::size_t>(device)]; }
  // Ends all grids of a device at once, wherever they are (seed mode).
  void drop_device(int device);

 private:
  struct Helper {  // a worker with its own thread
    explicit Helper(AddressSpace& memory, const Worker::Options& options)
        : worker(memory, options) {}
    Worker worker;
    std::mutex mutex;
    std::condition_variable wake;
    std::vector<std::unique_ptr<Cta>> arriving, ended;
    std::atomic<bool> stop{false};
    std::thread thread;
  };

  void deal();
  bool may_begin(const Grid& grid);  // for a cooperative grid
  void cancel(Grid& grid);
  bool place_one(const std::shared_ptr<Grid>& grid);
  void place(std::unique_ptr<Cta> cta);
  void collect();
  void take_back(std::vector<std::unique_ptr<Cta>> ended);
  static void help(Helper& helper);

  Random random_;
  Worker worker_;
  std::vector<std::unique_ptr<Helper>> helpers_;
  std::vector<Room> rooms_;
  std::vector<std::shared_ptr<Grid>> grids_;  // grids with CTAs that are not resident yet
  std::vector<int> active_;                   // number of CTAs resident or waiting, by device
  const int max_cooperative_;
  std::vector<std::shared_ptr<Grid>> cooperative_;  // that began; some may have ended
};

}  // namespace rondo::simt
