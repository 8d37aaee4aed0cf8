// SPDX-License-Identifier: Apache-2.0
// The GPU kernels alone: sums of several inputs into the same number of outputs, and copies,
// compared with the device's own copy of the same size. GB/s count read plus written bytes.
//
//   build/cuda/bin/micro_device [--large BYTES] [--iterations N]
// Prints a line of JSON per measurement: {"kernel": "sum_float", "bytes": 1048576, "ranks": 2,
// "us": 9.1, "gbs": 461.2, "of_copy": 0.95}. us: median of the iterations by CUDA events. of_copy:
// gbs divided by that of the device's own copy of the same size. Without a device it prints why and
// exits with 0; it exits with 1 if a measurement failed.
#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "bench/command_line.h"
#include "bench/gpu_lane.h"
#include "bench/options.h"
#include "bench/sweep.h"
#include "kernels/cuda/direct_args.h"
#include "kernels/cuda/kernels.h"

namespace rondo::bench {
namespace {

struct Settings {
  std::size_t small = std::size_t{1} << 20;
  std::size_t large = std::size_t{256} << 20;  // larger than every L2
  int iterations = 30;
};

// One measurement's buffers and timer.
class Device {
 public:
  explicit Device(GpuLane& lane) : lane_(lane) {}
  ~Device() {
    for (void* memory : buffers_) lane_.free(memory);
  }
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  Result<void*> buffer(std::size_t bytes) {
    RONDO_TRY(void* memory, lane_.allocate(bytes));
    buffers_.push_back(memory);
    RONDO_CHECK_OK(ran(gpu_api()->fill(memory, 1, bytes, lane_.stream())));
    return memory;
  }
  Status launch(int kernel, unsigned threads, const void* arguments, std::size_t size) {
    int multiprocessors = 0;
    gpu_api()->attribute(&multiprocessors, GpuAttribute::kMultiprocessors, lane_.device());
    GpuLaunch launch;
    launch.kernel = kernel, launch.block = threads;
    launch.grid = static_cast<unsigned>(std::max(1, multiprocessors * cuda::kDirectCtas));
    launch.arguments = arguments, launch.argument_bytes = size;
    return ran(gpu_api()->launch(launch, lane_.stream()));
  }
  static Status ran(GpuError error) {
    if (error == kGpuSuccess) return ok_status();
    return fail(StatusCode::kUnhandledCudaError, "{}", gpu_api()->error_text(error));
  }
  // Median time of what work() enqueues; a first run does not count.
  template <class Work>
  Result<double> median_us(int iterations, Work work) {
    std::vector<double> times;
    for (int i = -1; i < iterations; ++i) {
      RONDO_CHECK_OK(lane_.start_timer());
      RONDO_CHECK_OK(work());
      RONDO_CHECK_OK(lane_.stop_timer());
      RONDO_CHECK_OK(lane_.wait());
      RONDO_TRY(const double us, lane_.elapsed_us());
      if (i >= 0) times.push_back(us);
    }
    std::nth_element(times.begin(), times.begin() + iterations / 2, times.end());
    return times[static_cast<std::size_t>(iterations / 2)];
  }
  GpuStream stream() const { return lane_.stream(); }

 private:
  GpuLane& lane_;
  std::vector<void*> buffers_;
};

Result<double> device_copy(Device& device, std::size_t bytes, int iterations) {
  RONDO_TRY(void* from, device.buffer(bytes));
  RONDO_TRY(void* to, device.buffer(bytes));
  return device.median_us(iterations, [&, from = from, to = to] {
    return Device::ran(gpu_api()->copy(to, from, bytes, GpuCopy::kDeviceToDevice, device.stream()));
  });
}

Result<double> copy_kernel(Device& device, std::size_t bytes, int iterations) {
  cuda::CopyArgs args{};
  args.items = args.all_targets = 1;
  RONDO_TRY(void* from, device.buffer(bytes));
  RONDO_TRY(args.target[0], device.buffer(bytes));
  args.item[0] = {from, bytes, 0, 1};
  return device.median_us(iterations, [&] {
    return device.launch(cuda::kCopyKernel, cuda::kDirectThreads, &args, sizeof args);
  });
}

// Sums `ranks` inputs into `ranks` outputs, `bytes` each: the work of `ranks` ranks on one device.
Result<double> sum_kernel(Device& device, DataType type, int ranks, std::size_t bytes,
                          int iterations) {
  cuda::ReduceArgs args{};
  args.calls = 1;
  args.count[0] = bytes / size_of(type);
  args.sources = args.targets = args.ranks = ranks;
  args.segments = 1;
  for (int r = 0; r < ranks; ++r) {
    RONDO_TRY(args.input[r], device.buffer(bytes));
    RONDO_TRY(args.output[r], device.buffer(bytes));
  }
  const unsigned threads =
      cuda::is_heavy(type, RedOp::kSum) ? cuda::kDirectHeavyThreads : cuda::kDirectThreads;
  return device.median_us(iterations, [&] {
    return device.launch(cuda::direct_kernel(type, RedOp::kSum), threads, &args, sizeof args);
  });
}

class Report {
 public:
  void line(const std::string& kernel, std::size_t bytes, int ranks, const Result<double>& us) {
    if (!us) {
      failed_ = true;
      std::fprintf(stderr, "%s, %zu bytes, %d ranks: %s\n", kernel.c_str(), bytes, ranks,
                   us.error().text.c_str());
      return;
    }
    const double gbs =
        us.value() > 0 ? 2.0 * ranks * static_cast<double>(bytes) / us.value() / 1e3 : 0;
    if (kernel == "device_copy") copy_gbs_ = gbs;
    fmt::print(
        "{{\"kernel\": \"{}\", \"bytes\": {}, \"ranks\": {}, \"us\": {:.2f}, \"gbs\": {:.1f}"
        ", \"of_copy\": {:.3f}}}\n",
        kernel, bytes, ranks, us.value(), gbs, copy_gbs_ > 0 ? gbs / copy_gbs_ : 0);
    std::fflush(stdout);
  }
  bool failed() const { return failed_; }

 private:
  double copy_gbs_ = 0;  // of the current size
  bool failed_ = false;
};

int measure_all(const Settings& settings) {
  auto lane = GpuLane::make(0);
  if (!lane) {
    std::fprintf(stderr, "%s\n", lane.error().text.c_str());
    return 1;
  }
  Report report;
  for (const std::size_t bytes : {settings.small, settings.large}) {
    const auto print_row = [&](const std::string& kernel, int ranks, auto measurement) {
      Device device(*lane.value());
      report.line(kernel, bytes, ranks, measurement(device));
    };
    print_row("device_copy", 1,
              [&](Device& d) { return device_copy(d, bytes, settings.iterations); });
    print_row("copy_kernel", 1,
              [&](Device& d) { return copy_kernel(d, bytes, settings.iterations); });
    for (const auto& [name, type] : {std::pair{"sum_float", DataType::kFloat32},
                                     std::pair{"sum_bfloat16", DataType::kBfloat16},
                                     std::pair{"sum_f8e4m3", DataType::kFloat8e4m3}})
      for (const int ranks : {1, 2, 4, 8})
        print_row(name, ranks, [&, type = type](Device& d) {
          return sum_kernel(d, type, ranks, bytes, settings.iterations);
        });
  }
  return report.failed() ? 1 : 0;
}

}  // namespace
}  // namespace rondo::bench

int main(int argc, char** argv) {
  rondo::bench::Settings settings;
  rondo::CommandLine line("Times the kernels of a GPU by themselves, beside the device's own copy.",
                          argc, argv, rondo::bench::kBadCommandLine);
  line.option("--large", settings.large, "bytes of the large buffers; 256 MiB")
      .within(std::size_t{4096}, std::size_t{1} << 32);
  line.option("--iterations", settings.iterations).within(1, 10000);
  if (const auto ended = line.parse()) return *ended;
  if (rondo::bench::gpu_devices() == 0) {
    std::printf("no device to measure: %s\n", rondo::gpu_absence());
    return 0;
  }
  return rondo::bench::measure_all(settings);
}
