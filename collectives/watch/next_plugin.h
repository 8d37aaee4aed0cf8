// SPDX-License-Identifier: Apache-2.0
// NextPlugin: the profiler plugin that RONDO_WATCH_NEXT names. NCCL loads one plugin; it gets what
// that one would.
//
// It must have the version of the interface that NCCL asks the watch for, because events of
// different versions have different layouts; versions 5 to 7 only add to them, so an older one of
// these will do. Guarantees: one that cannot be used costs one line. Each handle that NCCL gets
// stands for one of each plugin (kPairs newest). Cost: 1.5 MiB; an event has one call more.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "collectives/profiler/abi.h"

namespace rondo::watch {

class NextPlugin {
 public:
  static constexpr std::size_t kPairs = std::size_t{1} << 16;

  // Null: the variable is not set, or the plugin cannot be used. version: that NCCL uses.
  static NextPlugin* of_version(int version);
  // For events: what of_version() has loaded. It stays.
  static NextPlugin* loaded() { return loaded_.load(std::memory_order_acquire); }

  const profiler::abi::ProfilerTable& table() const { return table_; }
  int* mask() { return &mask_; }
  bool wants(std::uint64_t kind) const {
    const auto mask = std::atomic_ref<int>(const_cast<int&>(mask_)).load(std::memory_order_relaxed);
    return (static_cast<unsigned>(mask) & kind & kinds_) != 0;
  }

  struct Pair {
    void *own = nullptr, *next = nullptr;
  };
  void* join(Pair pair);
  // Nulls: too old, or of another process.
  Pair split(void* handle) const;

 private:
  NextPlugin(const profiler::abi::ProfilerTable& table, std::uint64_t kinds)
      : table_(table), kinds_(kinds), pairs_(std::make_unique<std::array<Entry, kPairs>>()) {}

  static std::atomic<NextPlugin*> loaded_;
  struct Entry {
    std::atomic<std::uint64_t> number{0};
    std::atomic<void*> own{nullptr}, next{nullptr};
  };
  const profiler::abi::ProfilerTable& table_;
  const std::uint64_t kinds_;  // that its version has
  int mask_ = 0;               // which it may write at any time
  std::atomic<std::uint64_t> newest_{0};
  const std::unique_ptr<std::array<Entry, kPairs>> pairs_;
};

}  // namespace rondo::watch
