// MemoryRegistry: which device memory of this process others may use, by address range; how they
// are given it, and how theirs comes here.
//
// Memory is allocated here (ncclMemAlloc) so that a file descriptor can be made of it where the
// driver can, by cudaMalloc otherwise, and all devices that reach its own may access it; or the
// program registers what it has. Guarantees: what is imported stays mapped as long as somebody
// holds it; a block that comes again is mapped once, whichever communicator asked first. Nothing
// is illegal while streams capture, if the calling thread is in relaxed capture mode
// (RelaxedCapture). Cost: some system calls, once a block.
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

// Memory that other processes may map. The number is never used twice, addresses may be.
struct MemoryBlock {
  std::uint64_t number = 0;
  std::byte* base = nullptr;
  std::size_t bytes = 0;
};

// Where an allocation of another process begins here.
using ImportedMemory = std::shared_ptr<std::byte>;

class MemoryRegistry {
 public:
  // A listener is notified when a block that it has had mapped elsewhere ends, before its memory is
  // freed.
  class Listener {
   public:
    Listener();
    virtual ~Listener();
    Listener(const Listener&) = delete;
    Listener& operator=(const Listener&) = delete;
    virtual void block_ends(std::uint64_t number) = 0;
  };

  Result<void*> allocate(std::size_t bytes, int device);
  // Whether the pointer came from allocate(); then it is freed after all work of its device, as
  // cudaFree does, and `freed` says how.
  bool free(void* pointer, Status* freed);
  // The same for memory that Rondo makes for itself (own_memory.h).
  Result<OwnMemory> allocate_own(std::size_t bytes, int device);
  // Memory of the program's; its number.
  std::uint64_t add(void* pointer, std::size_t bytes);
  void remove(std::uint64_t number);

  // What the driver would say of device memory, where that is known without asking: of what came
  // from allocate() or was added, since its end is told.
  struct Known {
    int device = -1;
    bool own_access = false;  // GpuPointer's
  };
  std::optional<Known> known_at(const void* pointer);

  // The block that holds [pointer, pointer + bytes).
  std::optional<MemoryBlock> find(const void* pointer, std::size_t bytes);
  Result<MemoryHandle> export_block(const MemoryBlock& block);
  // The same of the block that holds a range, or of the allocation, if no block does.
  Result<MemoryHandle> export_range(const void* pointer, std::size_t bytes);
  // For devices of this process; what came as a CUDA IPC handle, for the current one.
  Result<ImportedMemory> import_memory(const MemoryHandle& handle, std::span<const int> devices);

  // What lies where allocate_own() or import_memory() said, so that it may be dropped for a while;
  // null where it cannot: it came from cudaMalloc, or as a CUDA IPC handle.
  std::shared_ptr<VirtualMemory> virtual_at(const std::byte* address);

 private:
  struct Allocation {
    std::shared_ptr<VirtualMemory> memory = {};  // null: plain cudaMalloc
    int device;
    std::size_t asked;
    std::uint64_t number = 0;
  };

  // Of another process: which, its block's number and base; and the devices here.
  using ImportKey = std::tuple<ProcessId, std::uint64_t, std::uint64_t, std::vector<int>>;

  void tell_end(std::uint64_t number);
  std::optional<Allocation> forget(void* pointer);
  Result<ImportedMemory> map_imported(const MemoryHandle& handle, std::span<const int> devices);
  static Status give_back(void* pointer, const Allocation& memory);

  std::mutex mutex_;
  std::map<std::byte*, Allocation> allocated_;
  std::map<std::uint64_t, std::span<std::byte>> registered_;
  // Of these, by where they begin: one that is within one allocation of a device. Where several
  // begin alike, the first.
  struct KnownRange {
    std::size_t bytes = 0;
    std::uint64_t number = 0;
    Known known;
  };
  std::map<std::byte*, KnownRange> known_;
  std::uint64_t newest_ = 0;  // number
  std::mutex listeners_mutex_;
  std::set<Listener*> listeners_;
  SharedByKey<ImportKey, std::byte> imported_;
  std::map<std::byte*, std::shared_ptr<VirtualMemory>> mapped_;  // imported, from files
};

MemoryRegistry& memory_registry();  // of this process

}  // namespace rondo::gpu
