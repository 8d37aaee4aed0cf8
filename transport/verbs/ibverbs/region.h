// SPDX-License-Identifier: Apache-2.0
// Region: memory registered with a device: the device reads it, peers write it. RegionPool:
// registered memory for Rondo itself, cut from a few large regions.
//
// Guarantees: a region is registered as long as the object exists. A pool never exceeds its limit.
// Its memory is not inherited by forked children (MADV_DONTFORK), so copy-on-write never separates
// this process from a page that the device writes. For one thread at a time. Cost: registering pins
// pages, about a millisecond per MiB of new pages; take() searches the free pieces and registers
// only if none is large enough. Never in a data path.
//
//   RONDO_TRY(Region user, Region::of(device, buffer, Ordering::kRelaxed));
//   RegionPool pool(device, 64 << 20);
//   RONDO_TRY(const Slice ring, pool.take(4096));
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <span>

#include "base/result.h"
#include "transport/net/net.h"
#include "transport/verbs/ibverbs/device_context.h"

namespace rondo::verbs {

// kRelaxed: writes become visible in any order, all of them before their completion. kStrict: in
// order, for words that a thread polls.
enum class Ordering { kStrict, kRelaxed };

class Region {
 public:
  static Result<Region> of(DeviceContext& device, std::span<std::byte> bytes, Ordering ordering);
  // Memory of a caller, of any kind; relaxed, unless it is `ordered`. The caller can close a dmabuf
  // file afterwards.
  static Result<Region> of(DeviceContext& device, const net::Memory& memory);
  Region(Region&& other) noexcept;
  Region& operator=(Region&& other) noexcept;
  ~Region();

  std::uint32_t local_key() const { return registered_->lkey; }
  std::uint32_t remote_key() const { return registered_->rkey; }

 private:
  static Result<Region> of(DeviceContext& device, std::span<std::byte> bytes, Ordering ordering,
                           int access);
  Region(const Ibverbs& verbs, ibv_mr* registered) : verbs_(&verbs), registered_(registered) {}
  const Ibverbs* verbs_;
  ibv_mr* registered_;
};

// A piece of registered memory.
struct Slice {
  std::span<std::byte> bytes{};
  std::uint32_t local_key = 0;
  std::uint32_t remote_key = 0;
};

class RegionPool {
 public:
  // most: limit in bytes.
  RegionPool(DeviceContext& device, std::size_t maximum);
  ~RegionPool();
  RegionPool(const RegionPool&) = delete;
  RegionPool& operator=(const RegionPool&) = delete;

  // Cache-line aligned. New memory is zeroed, reused memory keeps its old content.
  Result<Slice> take(std::size_t bytes);
  void give_back(const Slice& slice);
  std::size_t mapped() const { return mapped_; }

 private:
  struct Block;
  Status add_block(std::size_t minimum);

  DeviceContext& device_;
  const std::size_t max_;
  std::size_t mapped_ = 0;
  std::list<Block> blocks_;
};

}  // namespace rondo::verbs
