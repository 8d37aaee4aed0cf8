// SPDX-License-Identifier: Apache-2.0
// Kernel launches.
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <optional>

#include "tests/simt/device/calls.h"
#include "tests/simt/device/platform.h"
#include "tests/simt/device/table.h"
#include "tests/simt/machine/violation.h"

namespace rondo::simt {

LaunchCounts& launch_counts() {
  static LaunchCounts counts;
  return counts;
}

}  // namespace rondo::simt

namespace rondo::simt::calls {
namespace {

constexpr std::size_t kMaxArgumentBytes = 4096;

struct Launched {
  Kernel kernel;
  GpuLaunch launch;
  std::vector<std::byte> arguments;
};

// A period that begins at the first query.
struct Late {
  std::chrono::microseconds lasts;
  std::optional<std::chrono::steady_clock::time_point> since = {};

  bool is_over() {
    const auto now = std::chrono::steady_clock::now();
    if (!since) since = now;
    return now - *since >= lasts;
  }
};

std::function<Step()> running(Platform& p, const Launched& launched, Command& command) {
  auto grid = std::make_shared<Grid>();
  grid->name = launched.kernel.name;
  grid->body = launched.kernel.body;
  grid->arguments = launched.arguments;
  grid->ctas = launched.launch.grid, grid->threads = launched.launch.block;
  grid->registers = launched.kernel.registers;
  grid->shared_bytes = launched.launch.shared_bytes;
  grid->cooperative = launched.launch.cooperative;
  grid->remote_domain = launched.launch.remote_domain;
  grid->device = command.device;
  p.loaded.launched(command.shared_from_this(), grid);
  auto over = std::make_shared<std::atomic<bool>>(false);
  grid->when_over = [over](Grid&) { over->store(true); };
  return [&p, grid, over, late = Late{std::chrono::microseconds(p.config.pace)},
          begun = false]() mutable {
    if (!begun) {
      if (!late.is_over()) return Step::kWaits;
      begun = true;
      p.engine.gang().start(grid);
      return Step::kMoved;
    }
    if (!over->load()) return Step::kWaits;
    if (grid->given_up) {
      const std::lock_guard lock(p.engine.mutex());
      std::atomic<GpuError>& sticky = p.devices[static_cast<std::size_t>(grid->device)].sticky;
      if (sticky == kGpuSuccess) sticky = kGpuIllegalAddress;
    }
    return Step::kOver;
  };
}

GpuError impossible(const Room& room, const Kernel& kernel, const GpuLaunch& launch) {
  const DeviceLimits& limits = room.limits();
  constexpr GpuError kInvalidConfiguration = 9;
  if (launch.grid == 0 || launch.grid > limits.grid || launch.block == 0 ||
      launch.block > limits.threads_per_cta || launch.shared_bytes > limits.shared_per_cta ||
      launch.argument_bytes > kMaxArgumentBytes) {
    return kInvalidConfiguration;
  }
  if (launch.block > static_cast<unsigned>(kernel.max_threads)) return kGpuLaunchOutOfResources;
  const int capacity = room.capacity({launch.block, kernel.registers, launch.shared_bytes});
  if (capacity == 0) return kGpuLaunchOutOfResources;
  if (launch.cooperative && launch.grid > static_cast<unsigned>(capacity))
    return kCooperativeLaunchTooLarge;
  return kGpuSuccess;
}

// CUDA loads a kernel at its first launch, unless it was loaded explicitly before, and loading may
// wait until the device is idle.
void load_to_launch(Platform& p, const Kernel& kernel, int device) {
  if (!kernel.lazy || !p.config.lazy_loading || p.loaded.has(kernel.body, device)) return;
  p.loaded.add(kernel.body, device);
  const std::shared_ptr<Grid> beside = p.loaded.waiting(device);
  if (beside == nullptr) return;
  report(Violation::kLoading,
         fmt::format("kernel {} was not loaded on device {} before its launch, and kernel {} waits "
                     "there for others",
                     kernel.name, device, beside->name));
}

}  // namespace

GpuError resident_ctas(int* per_multiprocessor, const Kernel& kernel, int block,
                       std::size_t shared) {
  Platform& p = platform();
  if (const GpuError error = p.trouble()) return error;
  const Room& room = p.engine.gang().room(current_device());
  *per_multiprocessor = Room::per_multiprocessor(
      room.limits(), {static_cast<unsigned>(block), kernel.registers, shared});
  return kGpuSuccess;
}

GpuError load_kernel(const Kernel& kernel) {
  Platform& p = platform();
  if (const GpuError error = p.trouble()) return error;
  const std::lock_guard lock(p.engine.mutex());
  p.loaded.add(kernel.body, current_device());
  return kGpuSuccess;
}

GpuError launch_kernel(const Kernel& kernel, const GpuLaunch& launch, GpuStream handle) {
  Platform& p = platform();
  if (const GpuError error = p.trouble()) return error;
  std::unique_lock lock(p.engine.mutex());
  Stream* const stream = p.stream(handle);
  if (stream == nullptr) return kGpuInvalidHandle;
  // CUDA does not say whether a capture survives that.
  if (stream->device != current_device() && stream->capture != nullptr)
    return p.invalidate(*stream->capture, kGpuInvalidHandle);
  if (stream->device != current_device()) return kGpuInvalidHandle;
  const Room& room = p.engine.gang().room(stream->device);
  if (const GpuError error = impossible(room, kernel, launch)) return error;
  load_to_launch(p, kernel, stream->device);
  if (p.config.lost != 0 && ++p.launches >= p.config.lost) {
    p.devices[static_cast<std::size_t>(stream->device)].sticky = kGpuLaunchFailure;
    return kGpuLaunchFailure;
  }
  LaunchCounts& counts = launch_counts();
  ++counts.launches;
  if (launch.grid > counts.largest_grid) counts.largest_grid = launch.grid;
  const auto* const bytes = static_cast<const std::byte*>(launch.arguments);
  auto launched =
      std::make_shared<Launched>(Launched{kernel, launch, {bytes, bytes + launch.argument_bytes}});
  const GpuError submitted =
      p.submit_locked(*stream, {kernel.name, stream->device, [&p, launched](Command& command) {
                                  command.step = running(p, *launched, command);
                                }});
  if (!p.config.blocking_launches || submitted != kGpuSuccess || stream->capture != nullptr)
    return submitted;
  const CommandRef own = stream->newest;
  p.engine.wait(lock, [&] { return own == nullptr || own->over; });
  return p.trouble();
}

}  // namespace rondo::simt::calls
