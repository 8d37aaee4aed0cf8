// SPDX-License-Identifier: Apache-2.0
// Helpers for CUDA calls: errors as texts, and scopes that restore the current device and the
// capture mode.
#pragma once

#include <string>
#include <vector>

#include "base/gpu.h"
#include "base/result.h"
#include "base/thread.h"

namespace rondo::gpu {

inline constexpr int kHostRank = -1;  // the "device" of a rank on the host

// Success, or kUnhandledCudaError with CUDA's name and text of the error.
Status check(GpuError error, const char* what);

// PCI bus id in lower case, "0000:01:00.0"; empty if CUDA does not report it.
std::string bus_id_of(int device);
// Product name, "NVIDIA H100 80GB HBM3"; empty if CUDA does not report it.
std::string device_name_of(int device);

// Makes a device and its context current for this thread; the destructor restores the previous
// device. Nested scopes query the driver for the current device at most once, so no other code must
// change it inside a scope.
class DeviceScope {
 public:
  // By a thread of Rondo's own, before its first scope: the device of its last scope stays current.
  // Restoring device 0, which every new thread has, would create a context there: memory of the GPU
  // for each process of the host, and an error if it is in exclusive mode.
  static void keep_device_of_thread();

  explicit DeviceScope(int device);
  // A scope without a device: code directly in it does not rely on a current device. So the scopes
  // in it do not have to restore one, and it makes no driver call itself.
  DeviceScope();
  ~DeviceScope();
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;
  const Status& entered() const { return entered_; }

  // is_in(): this thread is in a scope that has made the device current. has_context(): it has been
  // in a scope of any device; before that it has no context, and driver calls fail.
  static bool is_in(int device);
  static bool has_context();

 private:
  const bool outermost_, in_any_;  // in_any_: the outer scope has no device
  const int before_;
  Status entered_;
};

// Allows this thread to make calls that would otherwise invalidate captures of other threads.
class RelaxedCapture {
 public:
  RelaxedCapture() { gpu_api()->exchange_capture_mode(&mode_); }
  ~RelaxedCapture() { gpu_api()->exchange_capture_mode(&mode_); }
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;

 private:
  GpuCaptureMode mode_ = GpuCaptureMode::kRelaxed;
};

// True with CUDA_LAUNCH_BLOCKING: a launch returns only when its kernel has finished, and so has
// all that the kernel waits for.
bool blocking_launches();

// Runs launch(spot) for each of `spots`, each on its own thread, which has this thread's device.
// The results, in their order.
template <class Uses, class Launch>
std::vector<Status> results_at_once(const Uses& spots, const Launch& launch) {
  std::vector<Status> results(spots.size());
  std::vector<Thread> threads(spots.size());
  for (std::size_t i = 0; i < spots.size(); ++i) {
    auto started = Thread::start(
        "a launch",
        [&, i] {
          DeviceScope::keep_device_of_thread();
          results[i] = launch(spots[i]);
        },
        [&, i](const Error& error) { results[i] = copy_of(error); });
    if (started.ok())
      threads[i] = std::move(*started);
    else
      results[i] = started.error();
  }
  for (Thread& thread : threads)
    if (thread.joinable()) thread.join();
  return results;
}

// For blocking_launches(): kernels that wait for each other. Returns the first error.
template <class Uses, class Launch>
Status launch_at_once(const Uses& spots, const Launch& launch) {
  for (Status& result : results_at_once(spots, launch))
    if (!result.ok()) return std::move(result);
  return ok_status();
}

// Device of a rank that this thread creates now: the current CUDA device, or kHostRank without a
// device or with RONDO_DEVICE=host.
Result<int> device_for_new_rank();

}  // namespace rondo::gpu
