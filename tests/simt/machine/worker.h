// Worker: runs the threads of resident CTAs, one at a time, on the thread that calls turn().
//
// A GPU thread runs until it waits for others, synchronises or spins; then the seed picks who goes
// on. One worker for all CTAs makes a process's kernels repeatable; several workers, each on its
// own thread, run them in parallel (weak memory is then the host's own). Cost: 60 ns a switch.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "tests/simt/machine/grid.h"
#include "tests/simt/machine/random.h"
#include "tests/simt/machine/violation.h"

namespace rondo::simt {

inline constexpr int kMaxDevices = 16;

class Worker {
 public:
  struct Options {
    std::uint64_t seed = 1;
    bool weak_memory = false;  // one worker only
    bool whole_lines = false;  // the devices' memory gets lines of 128 bytes whole
    bool jumpy = true;         // plain accesses also give way now and then
  };
  enum class Turn { kIdle, kSpun, kMoved };

  Worker(AddressSpace& memory, const Options& options);
  ~Worker();

  void add(std::unique_ptr<Cta> cta);  // by the thread that calls turn()
  // Lets one GPU thread of the devices in `allowed` (bit d) run. kSpun: the thread only polls and
  // finds nothing new, and has for a while.
  Turn turn(std::uint32_t allowed);
  // Drops what runs of a grid, wherever it stands.
  void drop(Grid& grid);
  void drop_device(int device);
  // CTAs that have ended since the last call, so that their room can be reused.
  std::vector<std::unique_ptr<Cta>> take_ended() { return std::move(ended_); }
  bool has_work(int device) const { return !devices_[device].ready.empty(); }

  // For the hooks, on the GPU thread that runs.
  static Thread* running();
  AddressSpace& memory() { return memory_; }
  bool keeps_lines_whole(std::uint64_t address) const;  // host memory never does
  WeakMemory* weak() { return options_.weak_memory ? &weak_ : nullptr; }
  StoreBuffer& device_stores(int device) { return devices_[device].stores; }
  void give_way();                  // somebody else may go first
  void looks();                     // the same before a look at what others write
  void look_again();                // the same for a thread that found nothing new
  void plain_access();              // may give way
  void block(const char* in_what);  // until wake()
  void wake(Thread& thread);
  [[noreturn]] void give_up();  // this thread's grid ends here
  Random& random() { return random_; }

 private:
  struct DevicePart {
    std::vector<Thread*> ready;
    std::size_t spinning = 0;
    StoreBuffer stores;
  };

  DevicePart& part(const Thread& thread) { return devices_[thread.cta.grid->device]; }
  void make_ready(Thread& thread);
  void make_unready(Thread& thread);
  void set_spinning(Thread& thread, bool spinning);
  void after(Thread& thread);
  void check_stuck(Cta& cta);
  void retire(Cta& cta);

  AddressSpace& memory_;
  const Options options_;
  Random random_;
  WeakMemory weak_;
  std::array<DevicePart, kMaxDevices> devices_;
  std::vector<std::unique_ptr<Cta>> resident_, ended_;
  std::uint64_t spins_ = 0;  // turns in a row that got nowhere
  unsigned until_jump_ = 1;
};

// Reports what the running thread did wrong; its kernel ends.
[[noreturn]] void refuse(Violation kind, const std::string& what);
// With weak memory, for what hooks do: a weak load, and what comes before a store.
void note_read(Thread& thread, const std::byte* at, unsigned bytes);
void check_reads(Thread& thread, const std::byte* at, unsigned bytes);
// The same for the way by which a thread touches what lies at `at` (machine/proxies.h).
void check_way(Thread& thread, const std::byte* at, Proxy way, bool writes);
// Before a store to an address of the device's: whether the launch said that stores leave it.
void check_domain(Thread& thread, std::uint64_t address);

}  // namespace rondo::simt
