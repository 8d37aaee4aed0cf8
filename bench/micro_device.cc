// The kernels of a GPU by themselves: sums of several inputs into as many outputs, and copies,
// beside the device's own copy of as many bytes (read and written bytes, both sides alike).
//
//   build/cuda/bin/micro_device
// Times are those of CUDA events. Says why and ends well where there is no device.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdio>
#include <vector>

#include "bench/gpu_lane.h"
#include "kernels/cuda/direct_args.h"
#include "kernels/cuda/kernels.h"

namespace rondo {
namespace {

constexpr std::size_t kLarge = std::size_t{256} << 20;  // past every L2

class Device {
 public:
  explicit Device(benchmark::State& state) : state_(state) {
    auto made = bench::GpuLane::make(0);
    if (made) lane_ = std::move(made).value();
    int multiprocessors = 0;
    gpu_api()->attribute(&multiprocessors, GpuAttribute::kMultiprocessors, 0);
    ctas_ = static_cast<unsigned>(std::max(1, multiprocessors * cuda::kDirectCtas));
  }
  ~Device() {
    for (void* memory : buffers_) lane_->free(memory);
  }

  void* buffer(std::size_t bytes) {
    if (lane_ == nullptr) return nullptr;
    auto memory = lane_->allocate(bytes);
    if (!memory) return nullptr;
    buffers_.push_back(memory.value());
    (void)gpu_api()->fill(memory.value(), 1, bytes, lane_->stream());
    return memory.value();
  }

  GpuError launch(int kernel, unsigned threads, const void* arguments, std::size_t size) {
    GpuLaunch launch;
    launch.kernel = kernel, launch.grid = ctas_, launch.block = threads;
    launch.arguments = arguments, launch.argument_bytes = size;
    return gpu_api()->launch(launch, lane_->stream());
  }

  // work() enqueues; `bytes` are read and written by it.
  template <class Work>
  void measure(double bytes, Work work) {
    if (lane_ == nullptr || std::find(buffers_.begin(), buffers_.end(), nullptr) != buffers_.end())
      return state_.SkipWithError("no memory on the device");
    if (work() != kGpuSuccess || !lane_->wait()) return state_.SkipWithError("it does not run");
    for (auto _ : state_) {
      (void)lane_->start_timer();
      (void)work();
      (void)lane_->stop_timer();
      if (!lane_->wait()) return state_.SkipWithError("it failed");
      state_.SetIterationTime(lane_->elapsed_us().value() * 1e-6);
    }
    state_.SetBytesProcessed(static_cast<std::int64_t>(bytes) * state_.iterations());
  }
  bench::GpuLane& lane() { return *lane_; }

 private:
  benchmark::State& state_;
  std::unique_ptr<bench::GpuLane> lane_;
  std::vector<void*> buffers_;
  unsigned ctas_ = 1;
};

void device_copy(benchmark::State& state) {
  Device device(state);
  const auto bytes = static_cast<std::size_t>(state.range(0));
  void *from = device.buffer(bytes), *to = device.buffer(bytes);
  device.measure(2.0 * static_cast<double>(bytes), [&] {
    return gpu_api()->copy(to, from, bytes, GpuCopy::kDeviceToDevice, device.lane().stream());
  });
}
BENCHMARK(device_copy)->Arg(1 << 20)->Arg(kLarge)->UseManualTime();

void copy_kernel(benchmark::State& state) {
  Device device(state);
  const auto bytes = static_cast<std::size_t>(state.range(0));
  cuda::CopyArgs args{};
  args.items = args.all_targets = 1;
  args.item[0] = {device.buffer(bytes), bytes, 0, 1};
  args.target[0] = device.buffer(bytes);
  device.measure(2.0 * static_cast<double>(bytes), [&] {
    return device.launch(cuda::kCopyKernel, cuda::kDirectThreads, &args, sizeof args);
  });
}
BENCHMARK(copy_kernel)->Arg(1 << 20)->Arg(kLarge)->UseManualTime();

// Sums of n inputs of that many bytes into n outputs: what n ranks on one device need.
void sum_kernel(benchmark::State& state, DataType type) {
  Device device(state);
  const auto bytes = static_cast<std::size_t>(state.range(0));
  const int ranks = static_cast<int>(state.range(1));
  cuda::ReduceArgs args{};
  args.count = bytes / size_of(type);
  args.sources = args.targets = args.ranks = ranks;
  args.segments = 1;
  for (int r = 0; r < ranks; ++r) {
    args.input[r] = device.buffer(bytes);
    args.output[r] = device.buffer(bytes);
  }
  const unsigned threads =
      cuda::is_heavy(type, RedOp::kSum) ? cuda::kDirectHeavyThreads : cuda::kDirectThreads;
  device.measure(2.0 * ranks * static_cast<double>(bytes), [&] {
    return device.launch(cuda::direct_kernel(type, RedOp::kSum), threads, &args, sizeof args);
  });
}
const std::vector<std::vector<std::int64_t>> kSizesAndRanks{{1 << 20, kLarge}, {1, 2, 4, 8}};
BENCHMARK_CAPTURE(sum_kernel, f32, DataType::kFloat32)
    ->ArgsProduct(kSizesAndRanks)
    ->UseManualTime();
BENCHMARK_CAPTURE(sum_kernel, bf16, DataType::kBfloat16)
    ->ArgsProduct(kSizesAndRanks)
    ->UseManualTime();
BENCHMARK_CAPTURE(sum_kernel, f8e4m3, DataType::kFloat8e4m3)
    ->ArgsProduct(kSizesAndRanks)
    ->UseManualTime();

}  // namespace
}  // namespace rondo

int main(int argc, char** argv) {
  if (rondo::bench::gpu_devices() == 0) {
    std::printf("no device to measure: %s\n", rondo::gpu_absence());
    return 0;
  }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
