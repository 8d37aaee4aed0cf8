// SPDX-License-Identifier: Apache-2.0
// DirectMemory: a block of device memory that a network's adapters read and write directly
// (GPUDirect). DirectArena: pieces of such blocks, for slots of connections and messages of one
// rank and one direction.
//
// Guarantees: a block is registered with adapters as a whole (gpu_direct.h decides if that is
// allowed); its file is open as long as it exists. A block is freed once no piece of it is held and
// no network has it registered. One caller of an arena at a time. Cost: one or two driver calls and
// a file per block of 2 MiB or more; a piece is arithmetic.
//
//   RONDO_TRY(auto arena, DirectArena::open(device, verdict, bytes, take));   // take: registers
//   RONDO_TRY(const DirectPiece piece, arena->take(bytes));
//   ... kernels use piece.at; networks that have registered piece.block send and receive there
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/fd.h"
#include "base/result.h"
#include "transport/memory/own_memory.h"
#include "transport/net/net.h"
#include "transport/proxy/gpu_direct.h"

namespace rondo::gpu {

class DirectMemory {
 public:
  // verdict: how adapters' writes become visible to the GPU.
  static Result<std::shared_ptr<const DirectMemory>> make(std::size_t bytes, int device,
                                                          net::Memory::Kind kind,
                                                          const GpuDirectVerdict& verdict);
  // For registration with networks.
  const net::Memory& memory() const { return memory_; }

 private:
  DirectMemory() = default;
  OwnMemory owner_;
  Fd file_;
  net::Memory memory_;
};
using DirectBlock = std::shared_ptr<const DirectMemory>;

struct DirectPiece {
  std::shared_ptr<std::byte> at;  // holds the block
  DirectBlock block;
};

class DirectArena {
 public:
  // With a first block of at least `bytes` bytes, of the first kind for which `take` succeeds. If
  // all kinds fail, the error lists the result of each.
  using Take = std::function<Status(const DirectBlock&)>;
  static Result<std::unique_ptr<DirectArena>> open(int device, const GpuDirectVerdict& verdict,
                                                   std::size_t bytes, const Take& take);

  Result<DirectPiece> take(std::size_t bytes);
  net::Memory::Kind kind() const { return kind_; }
  std::uint64_t bytes() const { return bytes_.load(); }  // size of all blocks; any thread

 private:
  DirectArena(int device, net::Memory::Kind kind, const GpuDirectVerdict& verdict)
      : device_(device), kind_(kind), verdict_(verdict) {}
  Status add_block(std::size_t bytes);

  const int device_;
  const net::Memory::Kind kind_;
  const GpuDirectVerdict verdict_;
  DirectBlock newest_;
  std::size_t used_ = 0;  // bytes of the newest block
  std::atomic<std::uint64_t> bytes_{0};
};

}  // namespace rondo::gpu
