// SPDX-License-Identifier: Apache-2.0
// A bare machine for test kernels: memory and a gang, without streams; one host thread drives it,
// so that a seed repeats a run exactly.
//
//   MachineOptions options{.seed = seed, .weak = true};
//   TestMachine machine(options);
//   auto* flags = machine.allocate<std::uint32_t>(64);
//   machine.launch("name", {.ctas = 2, .threads = 64}, [=] { device::store(flags, 1u); });
//   machine.run();
#pragma once

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "kernels/cuda/device.h"
#include "tests/simt/machine/address_space.h"
#include "tests/simt/machine/gang.h"
#include "tests/simt/machine/violation.h"

namespace rondo::simt {

struct MachineOptions {
  std::uint64_t seed = 1;
  bool weak = false;
  bool whole_lines = false;
  int threads = 0;  // 0: seed mode
  int devices = 2;
  int max_cooperative = 0;
  bool faulty = false;  // a fault is planted: a violation only makes run() return false
  DeviceLimits limits = {.multiprocessors = 8};
};

struct MachineShape {
  unsigned ctas = 1;
  unsigned threads = 64;
  std::size_t shared_bytes = 0;
  int device = 0;
  bool cooperative = false;
};

class TestMachine {
 public:
  explicit TestMachine(const MachineOptions& options)
      : options_(options), gang_(memory_, gang_options(options)) {
    set_reproducer("seed " + std::to_string(options.seed) + (options.weak ? ", weak" : ""));
    if (options.faulty) expected_.emplace();
  }

  // Zeroed memory of a device, by default accessible to all devices.
  template <class T>
  T* allocate(std::size_t count, int device = 0, std::uint32_t access = ~0u) {
    const int file = memfd_create("test", MFD_CLOEXEC);
    const std::size_t bytes = count * sizeof(T);
    if (ftruncate(file, static_cast<off_t>(bytes)) != 0) std::abort();
    Allocation* const made =
        memory_.map(memory_.reserve(bytes), bytes, file, 0, device, access, false);
    close(file);
    return reinterpret_cast<T*>(made->begin);
  }
  template <class T>
  void release(T* pointer) {
    memory_.release(*memory_.find(reinterpret_cast<std::uint64_t>(pointer)));
  }
  // Host address of the memory of a device pointer.
  template <class T>
  T* on_host(T* pointer) {
    const auto address = reinterpret_cast<std::uint64_t>(pointer);
    Allocation* const found = memory_.find(address);
    return reinterpret_cast<T*>(found->real + (address - found->begin));
  }

  // after: a grid that must finish before this one begins, as on a stream.
  template <class Body>
  std::shared_ptr<Grid> launch(const char* name, const MachineShape& shape, const Body& body,
                               const std::shared_ptr<Grid>& after = nullptr) {
    static_assert(std::is_trivially_copyable_v<Body>);
    auto grid = std::make_shared<Grid>();
    grid->name = name;
    grid->body = [](const void* arguments) { (*static_cast<const Body*>(arguments))(); };
    const auto* const bytes = reinterpret_cast<const std::byte*>(&body);
    grid->arguments.assign(bytes, bytes + sizeof body);
    grid->ctas = shape.ctas, grid->threads = shape.threads;
    grid->shared_bytes = shape.shared_bytes, grid->device = shape.device;
    grid->cooperative = shape.cooperative;
    running_.fetch_add(1);
    grid->when_over = [this](Grid&) { running_.fetch_sub(1); };
    if (after != nullptr) {
      after->when_over = [this, grid, over = after->when_over](Grid& ended) {
        over(ended);
        gang_.start(grid);
      };
    } else {
      gang_.start(grid);
    }
    if (options_.faulty) launched_.push_back(grid);
    return grid;
  }
  // Runs until all kernels end (true), or there is no progress for long or a violation (false).
  bool run() {
    constexpr int kFruitless = 20000;
    int spun = 0;
    while (running_.load() > 0) {
      const Worker::Turn turn = gang_.turn();
      if (gave_up()) return false;
      spun = turn == Worker::Turn::kMoved ? 0 : spun + 1;
      if (options_.threads > 0) {
        usleep(10);
        if (spun > kFruitless * 100) return false;
      } else if (spun > kFruitless) {
        return false;
      }
    }
    return true;
  }

  // True if the planted fault caused a violation.
  bool gave_up() const {
    for (const auto& grid : launched_)
      if (grid->given_up) return true;
    return false;
  }

  AddressSpace& memory() { return memory_; }
  Gang& gang() { return gang_; }

 private:
  static GangOptions gang_options(const MachineOptions& options) {
    GangOptions gang;
    gang.worker.seed = options.seed;
    gang.worker.weak_memory = options.weak;
    gang.worker.whole_lines = options.whole_lines;
    gang.threads = options.threads;
    gang.devices = options.devices;
    gang.max_cooperative = options.max_cooperative;
    gang.limits = options.limits;
    return gang;
  }

  MachineOptions options_;
  std::optional<ExpectViolations> expected_;
  std::vector<std::shared_ptr<Grid>> launched_;
  AddressSpace memory_;
  std::atomic<int> running_{0};
  Gang gang_;
};

}  // namespace rondo::simt
