// Region: memory that a device may read and its peers may write; RegionPool: memory of Rondo's own
// for that, from few large regions.
//
// Guarantees: a region is registered as long as it lives. A pool never takes more than its bound;
// its memory is not in children that this process forks (MADV_DONTFORK), so that a page which the
// device writes to is never a copy that the child left behind. One thread at a time. Cost:
// registering pins pages, about a millisecond a MiB when they are new; take() is a walk over the
// free pieces, and registers only where none is large enough. Never in a data path.
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

// kRelaxed: writes may become visible in any order; a completion says when all are. kStrict, for
// words that somebody polls.
enum class Ordering { kStrict, kRelaxed };

class Region {
 public:
  static Result<Region> of(DeviceContext& device, std::span<std::byte> bytes, Ordering ordering);
  // A caller's, of whatever kind; relaxed, unless it is `ordered`. A dmabuf file may be closed
  // afterwards.
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
  // At most `most` bytes in all.
  RegionPool(DeviceContext& device, std::size_t most);
  ~RegionPool();
  RegionPool(const RegionPool&) = delete;
  RegionPool& operator=(const RegionPool&) = delete;

  // Zeroed where it is new; else as the last one left it. Begins at a cache line.
  Result<Slice> take(std::size_t bytes);
  void give_back(const Slice& slice);
  std::size_t mapped() const { return mapped_; }

 private:
  struct Block;
  Status add_block(std::size_t least);

  DeviceContext& device_;
  const std::size_t max_;
  std::size_t mapped_ = 0;
  std::list<Block> blocks_;
};

}  // namespace rondo::verbs
