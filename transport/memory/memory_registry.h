// SPDX-License-Identifier: Apache-2.0
// MemoryRegistry: the device memory of this process that other processes can use, by address range.
// It exports that memory to them and imports theirs.
//
// Memory is allocated here (ncclMemAlloc), or the program registers its own. If the driver supports
// it, allocated memory can be exported as a file descriptor, and all devices that can reach its
// device can access it; otherwise it is from cudaMalloc. Guarantees: imported memory stays mapped
// as long as it has a holder; a block that is imported again is mapped once, for all communicators.
// All calls are legal while streams capture, if the calling thread is in relaxed capture mode
// (RelaxedCapture). Cost: some system calls, once per block.
//
//   RONDO_TRY(MemoryHandle handle, memory_registry().export_range(pointer, bytes));  // for a peer
//   RONDO_TRY(ImportedMemory memory, memory_registry().import_memory(handle, devices));  // there
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <tuple>
#include <vector>

#include "base/result.h"
#include "base/shared_by_key.h"
#include "transport/memory/memory_handle.h"
#include "transport/memory/own_memory.h"
#include "transport/memory/virtual_memory.h"

namespace rondo::gpu {

// Memory that other processes can map. A number is never reused; an address can be.
struct MemoryBlock {
  std::uint64_t number = 0;
  std::byte* base = nullptr;
  std::size_t bytes = 0;
};

// Address in this process of an allocation of another process.
using ImportedMemory = std::shared_ptr<std::byte>;

class MemoryRegistry {
 public:
  // A listener is notified of each block that ends, before its memory is freed. False: another
  // process may still map it by CUDA IPC.
  class Listener {
   public:
    Listener() = default;
    virtual ~Listener() = default;
    Listener(const Listener&) = delete;
    Listener& operator=(const Listener&) = delete;
    virtual bool block_ends(std::uint64_t number) = 0;

   protected:
    // Other threads call block_ends() in between: so call begin_listening() last in the
    // constructor, end_listening() first in the destructor.
    void begin_listening();
    void end_listening();
  };

  Result<void*> allocate(std::size_t bytes, int device);
  // False: the pointer is not from allocate(). Otherwise it is freed after all work of its device,
  // as by cudaFree, and `freed` is the result. Memory from cudaMalloc that another process maps
  // stays allocated.
  bool free(void* pointer, Status* freed);
  // Allocates memory for Rondo itself (own_memory.h).
  Result<OwnMemory> allocate_own(std::size_t bytes, int device);
  // Addresses of such memory, or of another process's, without the memory: virtual_at() brings it.
  // `bytes`: a multiple of VirtualMemory's granularity.
  Result<OwnMemory> reserve_own(std::size_t bytes, int device);
  Result<ImportedMemory> reserve_import(std::size_t bytes, std::span<const int> devices);
  // Registers memory of the program; returns its number.
  std::uint64_t add(void* pointer, std::size_t bytes);
  void remove(std::uint64_t number);

  // The device of device memory, without a driver call. Known only for memory from allocate() or
  // add(), because the registry also learns when it ends.
  std::optional<int> known_device(const void* pointer);

  // Bytes from a pointer into memory from allocate() to its end; nullopt: other memory.
  std::optional<std::size_t> room_at(const void* pointer);

  // The block that contains [pointer, pointer + bytes).
  std::optional<MemoryBlock> find(const void* pointer, std::size_t bytes);
  Result<MemoryHandle> export_block(const MemoryBlock& block);
  // Exports the block that contains a range, or the allocation if no block does. Error: the range
  // is not within one.
  Result<MemoryHandle> export_range(const void* pointer, std::size_t bytes);
  // For `devices` of this process; a CUDA IPC handle: for the current device. Memory of this
  // process without a file keeps its address and gets no further access.
  Result<ImportedMemory> import_memory(const MemoryHandle& handle, std::span<const int> devices);
  // Gives up imported memory. If this was the last holder: memory from a file is unmapped at once
  // if it is unused, that is, no kernel accesses it any more; otherwise, and always if it is from a
  // CUDA IPC handle (the driver may wait for all work), once the process has no unfinished work.
  // The result lives until the handle is closed.
  static std::weak_ptr<const bool> unmap(ImportedMemory memory, bool unused);

  // The memory at an address from allocate_own() or import_memory(), which can then be dropped for
  // a while. Null: it is from cudaMalloc or a CUDA IPC handle, and cannot be dropped.
  std::shared_ptr<VirtualMemory> virtual_at(const std::byte* address);

 private:
  struct Allocation {
    std::shared_ptr<VirtualMemory> memory = {};  // null: plain cudaMalloc
    int device;
    std::size_t asked;
    std::uint64_t number = 0;

    std::size_t bytes() const { return memory ? memory->bytes() : asked; }
  };

  // The other process, the number and base of its block; the devices here.
  using ImportKey = std::tuple<ProcessId, std::uint64_t, std::uint64_t, std::vector<int>>;

  bool report_end(std::uint64_t number);
  // The memory from allocate() that contains the address; else the end. With the mutex.
  std::map<std::byte*, Allocation>::iterator allocation_at(const std::byte* at);
  std::optional<Allocation> forget(void* pointer);
  OwnMemory own(void* made);
  Result<ImportedMemory> map_imported(const MemoryHandle& handle, std::span<const int> devices);
  ImportedMemory imported(std::shared_ptr<VirtualMemory> made);
  static Status give_back(void* pointer, const Allocation& memory);

  std::mutex mutex_;
  std::map<std::byte*, Allocation> allocated_;
  std::map<std::uint64_t, std::span<std::byte>> registered_;
  // The registered ranges that are within one device allocation, by begin. If several have the same
  // begin: the first.
  struct KnownRange {
    std::size_t bytes = 0;
    std::uint64_t number = 0;
    int device = -1;
  };
  std::map<std::byte*, KnownRange> known_;
  std::uint64_t newest_ = 0;  // newest number
  std::mutex listeners_mutex_;
  std::set<Listener*> listeners_;
  SharedByKey<ImportKey, std::byte> imported_;
  std::map<std::byte*, std::shared_ptr<VirtualMemory>> mapped_;  // imported, from files
};

MemoryRegistry& memory_registry();  // one per process

}  // namespace rondo::gpu
