// Small helpers around the table of CUDA calls: errors as sentences, the current device and the
// mode of captures restored.
#pragma once

#include <string>
#include <vector>

#include "base/gpu.h"
#include "base/result.h"
#include "base/thread.h"

namespace rondo::gpu {

inline constexpr int kHostRank = -1;  // the "device" of a rank that lives on the host

// Status, or kUnhandledCudaError with CUDA's name and text of the error.
Status check(GpuError error, const char* what);

// Of a device, in small letters: "0000:01:00.0"; empty where CUDA does not say.
std::string bus_id_of(int device);
// The vendor's name, "NVIDIA H100 80GB HBM3"; empty in the same case as above.
std::string device_name_of(int device);

// Makes a device and its context current for this thread, and what was current before at its end.
// Inside of another one the driver is asked at most once which that is: so nobody else may make a
// device current there.
class DeviceScope {
 public:
  explicit DeviceScope(int device);
  // Of whatever device: code in it, outside of scopes in it, relies on none. So these need not
  // restore anything, and it asks nothing by itself.
  DeviceScope();
  ~DeviceScope();
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;
  const Status& entered() const { return entered_; }

  // Whether this thread is in a scope that has made the device current; and whether it ever was in
  // one of a device. Before, calls of the driver would fail: it has no context.
  static bool is_in(int device);
  static bool has_context();

 private:
  const bool outermost_, in_any_;  // in_any_: the scope around this one is of whatever device
  const int before_;
  Status entered_;
};

// Lets this thread make calls that would otherwise end captures of other threads.
class RelaxedCapture {
 public:
  RelaxedCapture() { gpu_api()->exchange_capture_mode(&mode_); }
  ~RelaxedCapture() { gpu_api()->exchange_capture_mode(&mode_); }
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;

 private:
  GpuCaptureMode mode_ = GpuCaptureMode::kRelaxed;
};

// CUDA_LAUNCH_BLOCKING: a launch returns when its kernel is over, and with it all that it waits
// for.
bool blocking_launches();

// Then: launches that wait for each other, each by a thread of its own.
template <class Uses, class Launch>
Status launch_at_once(const Uses& spots, const Launch& launch) {
  std::vector<Status> results(spots.size());
  std::vector<Thread> threads(spots.size());
  for (std::size_t i = 0; i < spots.size(); ++i) {
    auto started = Thread::start(
        "a launch", [&, i] { results[i] = launch(spots[i]); },
        [&, i](const Error& error) { results[i] = copy_of(error); });
    if (started.ok())
      threads[i] = std::move(*started);
    else
      results[i] = started.error();
  }
  for (Thread& thread : threads)
    if (thread.joinable()) thread.join();
  for (const Status& result : results) RONDO_CHECK_OK(result);
  return ok_status();
}

// Where a rank that is made now by this thread lives: the current CUDA device, or kHostRank where
// there is none or RONDO_DEVICE=host.
Result<int> device_for_new_rank();

}  // namespace rondo::gpu
