// SPDX-License-Identifier: Apache-2.0
// Platform: the emulated machine of this process: devices, memory, streams, captures.
//
// Only one exists at a time. platform() makes it from the environment at the first call; tests
// replace it by their own, which ends everything in the old one. The calls (calls.h) act on it.
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
  std::atomic<GpuError> sticky{kGpuSuccess};     // returned by every later call
  std::uint32_t peers = 0;                       // bit p: may access the memory of device p
  std::uint32_t pool_users = 0;                  // bit p: device p may access this device's pool
  std::uint64_t used = 0;                        // bytes
  int file = -1;                                 // holds its memory
  mutable std::atomic<bool> has_context{false};  // of this process; it is never destroyed
};

struct Shareable {  // VMM: physical memory
  int file;
  std::size_t bytes;
  int device;  // -1: multicast
  int references;
  bool counted = false;  // its maker counts it as used on the device
  bool fabric = false;   // has fabric handles
  int copied = -1;       // if `file` is a private copy for kernels: what copies move
  std::shared_ptr<MulticastObject> multicast{};
};

class Platform {
 public:
  explicit Platform(const Config& config);
  ~Platform();

  // Puts an operation on a stream, or into the graph that the stream is capturing.
  GpuError submit(Stream* stream, Operation operation);
  // The same under the mutex, for operations of several parts. Releases the mutex while the device
  // has no room.
  GpuError submit_locked(Stream& stream, Operation operation);
  void wait_for_room(int device);  // under the mutex; releases it while it waits
  CommandRef enqueue(Stream& stream, const Operation& operation, int queue,
                     std::vector<CommandRef> after);
  // The stream of a handle; null: no such stream. Under the mutex.
  Stream* stream(GpuStream handle);
  Stream* per_thread_stream();
  Event* event(GpuEvent handle);
  // The error of a call that is unsafe while any thread captures; it also invalidates the capture.
  // Under the mutex.
  GpuError unsafe_while_capturing();
  GpuError invalidate(Capture& capture, GpuError error);

  bool reaches(int device, int peer) const;      // by P2P
  std::uint32_t who_may_touch(int owner) const;  // bit mask of devices
  std::uint32_t who_may_touch_pool(int owner) const;
  // True if the device can allocate `bytes` more; counts the request. Under the mutex, as below.
  bool has_memory(int device, std::size_t bytes);
  // New memory of a device, filled with garbage; null: none left.
  Allocation* take_memory(int device, std::size_t bytes, std::uint32_t access);
  void give_back(Allocation& allocation);
  // Error that an asynchronous call returns before it starts: lost device, forked child, or call in
  // a host function. Runtime calls make the device's context current to the thread.
  GpuError trouble() const;
  // The same for driver calls, which do not make a context current; with `call`: a context must be
  // current.
  GpuError driver_trouble() const;
  GpuError trouble_without_context(const char* call) const;
  std::vector<CommandRef> all_newest(int device) const;  // per stream; under the mutex
  // Waits until everything now on the device's streams has finished.
  void wait_until_idle(std::unique_lock<std::mutex>& lock, int device);
  // Waits as a free does: also for commands that arrive while it waits.
  void wait_as_free(std::unique_lock<std::mutex>& lock, int device);

  // The number on the machine of a device as programs number it, by CUDA_VISIBLE_DEVICES, and the
  // reverse; -1: there is none. All else here counts the machine's devices.
  int device_of(int number) const {
    return number >= 0 && number < static_cast<int>(visible.size())
               ? visible[static_cast<std::size_t>(number)]
               : -1;
  }
  int number_of(int device) const;

  const Config config;
  const std::vector<int> visible;  // devices that programs of this process see
  AddressSpace memory;
  std::vector<Device> devices;
  std::unordered_map<Stream*, std::unique_ptr<Stream>> streams;
  std::map<std::pair<std::uint64_t, int>, Stream*> per_thread;  // by thread and device
  std::unordered_map<Event*, std::unique_ptr<Event>> events;
  std::unordered_map<void*, std::shared_ptr<Graph>> graphs;
  std::vector<std::shared_ptr<Capture>> captures;  // captures in progress
  std::unordered_map<std::uint64_t, Shareable> shareables;
  std::unordered_map<std::uint64_t, int> imports;  // by address: open count
  std::uint64_t next_id = 1, streams_made = 0;
  std::uint64_t allocations = 0, launches = 0;
  LoadedKernels loaded;
  const int process;
  Engine engine;  // last member: its threads use the others
};

Platform& platform();
void replace_platform(const Config& config);
int& current_device();        // of this thread
bool& has_context();          // of this thread: true if its device's context is current
int& current_capture_mode();  // of this thread: CUDA's values
std::uint64_t current_thread();

}  // namespace rondo::simt
