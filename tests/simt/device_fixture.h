// SPDX-License-Identifier: Apache-2.0
// Fixture for tests of the emulated device: a platform per test, short names for the calls.
//
//   TestDevice gpu({.seed = seed});
//   auto* data = gpu.allocate<float>(1000);
//   gpu.launch("name", {.ctas = 4}, stream, [=] { ... });
#pragma once

#include <gtest/gtest.h>

#include <type_traits>

#include "kernels/cuda/device.h"
#include "tests/simt/device/calls.h"
#include "tests/simt/device/platform.h"
#include "tests/simt/machine/violation.h"

namespace rondo::simt {

struct Shape {
  unsigned ctas = 1;
  unsigned threads = 64;
  std::size_t shared_bytes = 0;
  bool cooperative = false;
  bool lazy = false;  // has to be loaded before it runs
  bool remote_domain = true;
  unsigned registers = kUsualRegisters;
};

#define EXPECT_CUDA(call) EXPECT_EQ(call, kGpuSuccess) << #call
#define ASSERT_CUDA(call) ASSERT_EQ(call, kGpuSuccess) << #call

class TestDevice {
 public:
  explicit TestDevice(Config config) {
    config.own_thread = false;
    config.multiprocessors = 8;
    replace_platform(config);
  }

  template <class T>
  T* allocate(std::size_t count) {
    void* pointer = nullptr;
    EXPECT_CUDA(calls::allocate(&pointer, count * sizeof(T)));
    return static_cast<T*>(pointer);
  }
  template <class T>
  T* allocate_host(std::size_t count) {
    void* pointer = nullptr;
    EXPECT_CUDA(calls::allocate_host(&pointer, count * sizeof(T), 0));
    return static_cast<T*>(pointer);
  }
  GpuStream stream() {
    GpuStream made = nullptr;
    EXPECT_CUDA(calls::create_stream(&made, 0));
    return made;
  }
  GpuEvent event() {
    GpuEvent made = nullptr;
    EXPECT_CUDA(calls::create_event(&made, kEventPlain));
    return made;
  }
  // Zeroes memory and waits for it.
  void clear(void* at, std::size_t bytes) {
    EXPECT_CUDA(calls::fill(at, 0, bytes, kLegacyStream));
    EXPECT_CUDA(calls::synchronize_device());
  }
  template <class T>
  T read(const T* at) {
    T value{};
    EXPECT_CUDA(calls::copy_and_wait(&value, at, sizeof(T), GpuCopy::kAny));
    return value;
  }

  template <class Body>
  static calls::Kernel kernel(const char* name, const Body& /*body*/) {
    return {name, [](const void* arguments) { (*static_cast<const Body*>(arguments))(); }, 1024};
  }
  template <class Body>
  static GpuError launch(const char* name, const Shape& shape, GpuStream stream, const Body& body) {
    static_assert(std::is_trivially_copyable_v<Body>);
    GpuLaunch launch;
    launch.grid = shape.ctas, launch.block = shape.threads;
    launch.shared_bytes = shape.shared_bytes, launch.cooperative = shape.cooperative;
    launch.remote_domain = shape.remote_domain;
    launch.arguments = &body, launch.argument_bytes = sizeof body;
    calls::Kernel launched = kernel(name, body);
    launched.lazy = shape.lazy;
    launched.registers = shape.registers;
    return calls::launch_kernel(launched, launch, stream);
  }
};

}  // namespace rondo::simt
