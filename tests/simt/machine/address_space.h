// SPDX-License-Identifier: Apache-2.0
// AddressSpace: all memory that the emulated GPUs of this process know, and which device may access
// it.
//
// Device pointers lie in a range that is never mapped, so a host that dereferences one crashes at
// once. The bytes are at a fixed distance, in memfds, which other processes can also map. At least
// 64 KiB between any two allocations belong to no allocation, every access is checked to the byte,
// fresh memory holds garbage, and addresses are never reused, so a use after free is recognized.
// Pinned and managed memory has the same address on host and device; registered memory has another
// one on the device, as CUDA allows. Cost: one table look-up and three comparisons a check; 64 KiB
// of address space an allocation.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <vector>

#include "tests/simt/machine/multicast.h"

namespace rondo::simt {

enum class MemoryKind : std::uint8_t { kDevice, kPinned, kRegistered, kManaged, kMulticast };

struct Allocation {
  std::uint64_t begin;  // as programs see it
  std::size_t bytes;
  std::byte* real;  // address of the bytes in this process
  MemoryKind kind;
  int device;                         // owner; -1: the host
  std::atomic<std::uint32_t> access;  // bit d: device d may access it (device memory)
  int file;                           // memfd that holds the bytes, or -1
  std::uint64_t file_offset;
  std::uint64_t host_alias;  // registered memory: the host address that the program registered
  bool imported;             // opened from another process, or mapped by address (VMM)
  std::atomic<bool> freed{false};
  bool pooled = false;  // of a pool; no access bits: not allocated yet
  std::shared_ptr<const MulticastObject> multicast{};
  std::byte* copied =
      nullptr;  // not null: where copies and stream memory operations find the bytes

  std::byte* for_copies() const { return copied != nullptr ? copied : real; }
  bool holds(std::uint64_t address, std::size_t count) const {
    return address >= begin && address - begin <= bytes && count <= bytes - (address - begin);
  }
  bool given_out_by_pool() const { return pooled && access.load(std::memory_order_relaxed) != 0; }
};

class AddressSpace {
 public:
  static constexpr std::uint64_t kGranule = 64 << 10;
  static constexpr std::uint64_t kRange = 256ull << 30;

  AddressSpace();  // reserves the ranges; aborts if that fails
  ~AddressSpace();
  AddressSpace(const AddressSpace&) = delete;
  AddressSpace& operator=(const AddressSpace&) = delete;

  // A range of addresses never used before, followed by a gap; 0: no addresses are left.
  std::uint64_t reserve(std::size_t bytes, std::uint64_t alignment = kGranule);
  // Maps `bytes` of `file` from `offset` on at an address of the range; both must have the same
  // offset in a page. Null with errno set if the system refuses.
  Allocation* map(std::uint64_t at, std::size_t bytes, int file, std::uint64_t offset, int device,
                  std::uint32_t access, bool imported);
  Allocation* add_pinned(void* memory, std::size_t bytes, MemoryKind kind);
  Allocation* add_registered(void* memory, std::size_t bytes);
  // Maps at an address of the range; only multimem instructions may access it.
  Allocation* map_multicast(std::uint64_t at, std::shared_ptr<const MulticastObject> object);
  std::uint64_t offset_of(std::uint64_t address) const { return address - range_; }
  // From now on `device` may access all memory of `owner` by P2P, except memory with its own access
  // list.
  void allow_device(int device, int owner);
  // Sets which devices may access memory of the pool of `owner`.
  void set_pool_access(int owner, std::uint32_t access);
  // Makes the bytes inaccessible; the address is remembered as freed.
  void release(Allocation& allocation);

  // The allocation at an address, freed or not; null: no allocation was ever there.
  Allocation* find(std::uint64_t address) const;
  // The mapping with this alias; null: there is none, or no longer.
  Allocation* find_alias(std::uint64_t alias) const;
  // A mapping of this file (its device and inode number), from its beginning.
  Allocation* find_file(std::uint64_t device, std::uint64_t number) const;
  // The registered range at this host address.
  Allocation* find_registered(std::uint64_t host_address) const;

  // Real address of [address, address + bytes) for a device, or null after reporting the violation.
  // `who` is called only to describe the offender.
  template <class Describe>
  std::byte* for_device(int device, std::uint64_t address, std::size_t bytes, const char* verb,
                        Describe&& who) const {
    const Allocation* const found = find(address);
    if (found != nullptr && !found->freed.load(std::memory_order_relaxed) &&
        found->holds(address, bytes) && may_touch(*found, device)) {
      return found->real + (address - found->begin);
    }
    complain(found, device, address, bytes, verb, who());
    return nullptr;
  }

 private:
  static bool may_touch(const Allocation& allocation, int device) {
    if (allocation.kind == MemoryKind::kMulticast) return false;
    return allocation.kind != MemoryKind::kDevice ||
           ((allocation.access.load(std::memory_order_relaxed) >> device) & 1) != 0;
  }
  static void complain(const Allocation* found, int device, std::uint64_t address,
                       std::size_t bytes, const char* verb, const std::string& who);
  Allocation* add(std::unique_ptr<Allocation> allocation);
  bool in_range(std::uint64_t address) const { return address - range_ < kRange; }

  void* reserved_ = nullptr;
  std::uint64_t range_ = 0;                    // as programs see it
  std::byte* bytes_ = nullptr;                 // address of the bytes in this process
  std::atomic<Allocation*>* table_ = nullptr;  // by granule of the range
  mutable std::shared_mutex mutex_;
  std::uint64_t next_ = kGranule;
  std::map<std::uint64_t, Allocation*> host_;  // by address; pinned and managed memory
  std::vector<std::unique_ptr<Allocation>> all_;
  std::atomic<std::uint64_t> host_changes_{1};
};

}  // namespace rondo::simt
