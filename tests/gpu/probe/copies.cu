// SPDX-License-Identifier: Apache-2.0
// Copy rates: within the device by CTAs and bytes in flight, and between device and host.
#include <string>

#include "asks.h"
#include "bounded.h"

namespace probe {
namespace {

using gpu::Vector;

// Every thread has `flight` loads of 16 bytes in flight; an incomplete rest is not copied.
template <int flight>
__global__ void __launch_bounds__(512) copy(Vector* to, const Vector* from, std::size_t count) {
  const std::size_t step = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  for (std::size_t i = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
       i + (flight - 1) * step < count; i += flight * step) {
    Vector v[flight];
#pragma unroll
    for (int f = 0; f < flight; ++f) v[f] = gpu::load_once(from + i + f * step);
#pragma unroll
    for (int f = 0; f < flight; ++f) gpu::store_once(to + i + f * step, v[f]);
  }
}

struct Timer {
  cudaEvent_t begin = new_event(cudaEventDefault), end = new_event(cudaEventDefault);
  cudaStream_t stream = new_stream();

  // Minimum time of `runs` runs, in seconds; the first one does not count.
  template <class Run>
  double best(int runs, Run run) const {
    float minimum = 0;
    for (int i = 0; i <= runs; ++i) {
      PROBE(cudaEventRecord(begin, stream));
      run();
      PROBE(cudaGetLastError());
      PROBE(cudaEventRecord(end, stream));
      PROBE(cudaEventSynchronize(end));
      float ms = 0;
      PROBE(cudaEventElapsedTime(&ms, begin, end));
      if (i == 1 || (i > 1 && ms < minimum)) minimum = ms;
    }
    return minimum * 1e-3;
  }
};

// GB/s, bytes read plus bytes written; in total and per CTA.
void report_rate(const std::string& name, std::size_t bytes, double seconds, unsigned ctas) {
  const double rate = 2.0 * static_cast<double>(bytes) / seconds * 1e-9;
  put(name, rate, "GB/s read and written");
  if (ctas > 1) put(name + "_a_cta", rate / ctas, "GB/s read and written");
}

struct Copying {
  const Timer& timer;
  char *to, *from;

  template <int flight>
  void plain(const std::string& name, std::size_t bytes, unsigned ctas) const {
    const double seconds = timer.best(4, [&] {
      copy<flight><<<ctas, 512, 0, timer.stream>>>(reinterpret_cast<Vector*>(to),
                                                   reinterpret_cast<const Vector*>(from),
                                                   bytes / sizeof(Vector));
    });
    report_rate(print("%s_%d_loads_%u_ctas", name.c_str(), flight, ctas), bytes, seconds, ctas);
  }
};

// Bytes for `ctas` CTAs, in whole pieces and steps of every kernel; the time hardly depends on it.
std::size_t bytes_for(unsigned ctas, std::size_t maximum) {
  const std::size_t unit = static_cast<std::size_t>(ctas) * 512 * 8 * sizeof(Vector);
  const std::size_t wanted = ctas * (std::size_t{8} << 20);
  return (wanted < maximum ? wanted : maximum) / unit * unit;
}

}  // namespace

void ask_copies() {
  constexpr std::size_t kBytes = std::size_t{1} << 30;
  const Timer timer;
  const Copying copying{timer, new_device<char>(kBytes), new_device<char>(kBytes)};
  const double seconds = timer.best(4, [&] {
    PROBE(
        cudaMemcpyAsync(copying.to, copying.from, kBytes, cudaMemcpyDeviceToDevice, timer.stream));
  });
  report_rate("memcpy", kBytes, seconds, 1);
  const unsigned sms = multiprocessors();
  for (const unsigned ctas : {1u, 4u, 8u, 16u, 32u, 64u, sms, 2 * sms}) {
    const std::size_t bytes = bytes_for(ctas, kBytes);
    copying.plain<1>("copy", bytes, ctas);
    copying.plain<2>("copy", bytes, ctas);
    copying.plain<4>("copy", bytes, ctas);
    copying.plain<8>("copy", bytes, ctas);
  }
  answer(print("cudaMemcpyAsync within the device: %.0f GB/s read and written",
               2.0 * static_cast<double>(kBytes) / seconds * 1e-9));
}

void ask_host_copies() {
  constexpr std::size_t kBytes = 128 << 20;
  const Timer timer;
  const cudaStream_t other = new_stream();
  auto* const device = new_device<char>(2 * kBytes);
  auto* const host = new_pinned<char>(2 * kBytes);
  const auto rate = [&](std::size_t bytes, double seconds) {
    return static_cast<double>(bytes) / seconds * 1e-9;
  };
  const auto down = [&](cudaStream_t stream) {
    PROBE(cudaMemcpyAsync(host, device, kBytes, cudaMemcpyDeviceToHost, stream));
  };
  const auto up = [&](cudaStream_t stream) {
    PROBE(cudaMemcpyAsync(device + kBytes, host + kBytes, kBytes, cudaMemcpyHostToDevice, stream));
  };
  const double to_host = rate(kBytes, timer.best(3, [&] { down(timer.stream); }));
  const double to_device = rate(kBytes, timer.best(3, [&] { up(timer.stream); }));
  put("memcpy_to_host", to_host, "GB/s");
  put("memcpy_to_device", to_device, "GB/s");
  const cudaEvent_t begun = new_event(), ended = new_event();
  const double both = timer.best(3, [&] {
    PROBE(cudaEventRecord(begun, timer.stream));
    PROBE(cudaStreamWaitEvent(other, begun, 0));
    down(timer.stream);
    up(other);
    PROBE(cudaEventRecord(ended, other));
    PROBE(cudaStreamWaitEvent(timer.stream, ended, 0));
  });
  put("memcpy_both_ways", rate(2 * kBytes, both), "GB/s");
  for (const std::size_t bytes : {std::size_t{4096}, std::size_t{65536}, std::size_t{1} << 20}) {
    const double seconds = timer.best(20, [&] {
      PROBE(cudaMemcpyAsync(host, device, bytes, cudaMemcpyDeviceToHost, timer.stream));
    });
    put(print("memcpy_to_host_%zu_bytes", bytes), seconds * 1e6, "us");
  }
  // Kernels that load or store host memory.
  for (const bool loads : {false, true}) {
    const Copying copying{timer, loads ? device : host, loads ? host : device};
    const std::string name = loads ? "kernel_to_device" : "kernel_to_host";
    for (const unsigned ctas : {1u, 4u, 16u}) {
      const std::size_t bytes = bytes_for(ctas, kBytes / 4) / 4;
      copying.plain<1>(name, bytes, ctas);
      copying.plain<8>(name, bytes, ctas);
    }
  }
  answer(print("pinned memory: %.1f GB/s to the host, %.1f to the device", to_host, to_device));
}

}  // namespace probe
