// Platform: the emulated machine of this process: devices, memory, streams, captures.
//
// One exists at a time. platform() makes it from the environment at the first call; tests replace
// it by one of their own, which ends everything that the old one held. The calls (calls.h) act on
// it.
#pragma once

#include <map>
#include <memory>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/gpu.h"
#include "tests/simt/device/command.h"
#include "tests/simt/device/config.h"
#include "tests/simt/device/engine.h"
#include "tests/simt/device/loaded_kernels.h"
#include "tests/simt/machine/address_space.h"

namespace rondo::simt {

inline constexpr GpuError kInitializationError = 3;
inline constexpr GpuError kIllegalState = 401;
inline constexpr GpuError kCaptureMerge = 902;
inline constexpr GpuError kCaptureUnmatched = 903;
inline constexpr GpuError kCaptureUnjoined = 904;
inline constexpr GpuError kCaptureIsolation = 905;
inline constexpr GpuError kCaptureImplicit = 906;
inline constexpr GpuError kCapturedEvent = 907;
inline constexpr GpuError kCaptureWrongThread = 908;
inline constexpr GpuError kCooperativeLaunchTooLarge = 720;

struct Device {
  Stream legacy;
  std::atomic<GpuError> sticky{kGpuSuccess};  // what every later call returns
  std::uint32_t peers = 0;                    // bit p: may touch the memory of device p
  std::uint32_t pool_users = 0;               // bit p: device p was let into this one's pool
  std::uint64_t used = 0;                     // bytes
  int file = -1;                              // holds its memory
};

struct Shareable {  // VMM: physical memory
  int file;
  std::size_t bytes;
  int device;  // -1: multicast
  int references;
  bool counted = false;  // as the device's, by the process that made it
  std::shared_ptr<MulticastObject> multicast{};
};

class Platform {
 public:
  explicit Platform(const Config& config);
  ~Platform();

  // Puts an operation on a stream, or into the graph that the stream captures.
  GpuError submit(Stream* stream, Operation operation);
  // The same under the mutex, for operations of several parts. Lets go of the mutex while there is
  // no room on the device.
  GpuError submit_locked(Stream& stream, Operation operation);
  void wait_for_room(int device);  // under the mutex, which it lets go of meanwhile
  CommandRef enqueue(Stream& stream, const Operation& operation, int queue,
                     std::vector<CommandRef> after);
  // The stream of a handle; null: there is no such stream. Under the mutex.
  Stream* stream(GpuStream handle);
  Stream* per_thread_stream();
  Event* event(GpuEvent handle);
  // What stands in the way of a call that is unsafe while anything captures; it also ends the
  // capture. Under the mutex.
  GpuError unsafe_while_capturing();
  GpuError invalidate(Capture& capture, GpuError error);

  bool reaches(int device, int peer) const;      // by P2P
  std::uint32_t who_may_touch(int owner) const;  // devices, as bits
  std::uint32_t who_may_touch_pool(int owner) const;
  // Whether a device gives so much more; counts the question. Under the mutex, as all of these.
  bool has_memory(int device, std::size_t bytes);
  // New memory of a device, of which nothing is written but garbage; null: there is none left.
  Allocation* take_memory(int device, std::size_t bytes, std::uint32_t access);
  void give_back(Allocation& allocation);
  // What an asynchronous call finds wrong before it starts: a lost device, a forked child, a call
  // in a host function. Calls of the runtime make the device's context current to the thread.
  GpuError trouble() const;
  // The same for calls of the driver, which do not; `call`: needs one that is.
  GpuError driver_trouble() const;
  GpuError trouble_without_context(const char* call) const;
  std::vector<CommandRef> all_newest(int device) const;  // of its streams; under the mutex
  // Until all that is on its streams by now is over.
  void wait_until_idle(std::unique_lock<std::mutex>& lock, int device);
  // As a free does that waits: what comes while it is busy with that is waited for, too.
  void wait_as_free(std::unique_lock<std::mutex>& lock, int device);

  const Config config;
  AddressSpace memory;
  std::vector<Device> devices;
  std::unordered_map<Stream*, std::unique_ptr<Stream>> streams;
  std::map<std::pair<std::uint64_t, int>, Stream*> per_thread;  // by thread and device
  std::unordered_map<Event*, std::unique_ptr<Event>> events;
  std::unordered_map<void*, std::shared_ptr<Graph>> graphs;
  std::vector<std::shared_ptr<Capture>> captures;  // that go on
  std::unordered_map<std::uint64_t, Shareable> shareables;
  std::unordered_map<std::uint64_t, int> imports;  // by address: how often opened
  std::uint64_t next_id = 1, streams_made = 0;
  std::uint64_t allocations = 0, launches = 0;
  LoadedKernels loaded;
  const int process;
  Engine engine;  // last: its threads use the rest
};

Platform& platform();
void replace_platform(const Config& config);
int& current_device();        // of this thread
bool& has_context();          // of this thread: whether its device's context is current
int& current_capture_mode();  // of this thread: CUDA's numbers
std::uint64_t current_thread();

}  // namespace rondo::simt
