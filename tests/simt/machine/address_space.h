// AddressSpace: every piece of memory that the emulated GPUs of this process know, and who may
// touch it.
//
// Device pointers lie in a range that is never mapped, so a host that follows one dies at once; the
// bytes lie at a fixed distance, in memfds, which other processes can map too. Between any
// two allocations there are at least 64 KiB that belong to nobody, every access is checked to the
// byte, fresh memory holds garbage, and addresses are never used twice, so an access to freed
// memory is known as one. Pinned and managed memory has its own address on host and device;
// registered memory has another one on the device, as CUDA allows. Cost: one table look-up and
// three comparisons a check; 64 KiB of address space an allocation.
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
  std::byte* real;  // where the bytes are in this process
  MemoryKind kind;
  int device;                         // owner; -1: the host
  std::atomic<std::uint32_t> access;  // bit d: device d may touch it (device memory)
  int file;                           // holds the bytes, or -1
  std::uint64_t file_offset;
  std::uint64_t host_alias;  // registered memory: what the program registered
  bool imported;             // opened from another process, or mapped by address (VMM)
  std::atomic<bool> freed{false};
  bool pooled = false;  // of a pool, whose access list is its own; no access: not yet given out
  std::shared_ptr<const MulticastObject> multicast{};

  bool holds(std::uint64_t address, std::size_t count) const {
    return address >= begin && address - begin <= bytes && count <= bytes - (address - begin);
  }
  bool given_out_by_pool() const { return pooled && access.load(std::memory_order_relaxed) != 0; }
};

class AddressSpace {
 public:
  static constexpr std::uint64_t kGranule = 64 << 10;
  static constexpr std::uint64_t kRange = 256ull << 30;

  AddressSpace();  // reserves the ranges; aborts where that is impossible
  ~AddressSpace();
  AddressSpace(const AddressSpace&) = delete;
  AddressSpace& operator=(const AddressSpace&) = delete;

  // Addresses that nobody has had before, with a gap behind; 0: none are left.
  std::uint64_t reserve(std::size_t bytes, std::uint64_t alignment = kGranule);
  // Makes `bytes` of `file` from `offset` on appear at an address in the range; both have the same
  // place in a page. Null with errno set where the system refuses.
  Allocation* map(std::uint64_t at, std::size_t bytes, int file, std::uint64_t offset, int device,
                  std::uint32_t access, bool imported);
  Allocation* add_pinned(void* memory, std::size_t bytes, MemoryKind kind);
  Allocation* add_registered(void* memory, std::size_t bytes);
  // At an address in the range; only multimem instructions may touch it.
  Allocation* map_multicast(std::uint64_t at, std::shared_ptr<const MulticastObject> object);
  std::uint64_t offset_of(std::uint64_t address) const { return address - range_; }
  // `device` may from now on touch all that `owner` has, by P2P, but for what has own lists.
  void allow_device(int device, int owner);
  // Who may touch what the pool of `owner` has given out.
  void set_pool_access(int owner, std::uint32_t access);
  // The bytes are no longer reachable; the address remains known as freed.
  void release(Allocation& allocation);

  // What an address belongs to, freed or not; null: nothing that was ever allocated.
  Allocation* find(std::uint64_t address) const;
  // The mapping that was given this alias, if it still is one.
  Allocation* find_alias(std::uint64_t alias) const;
  // A mapping of this file (a device's and a file's number), from its beginning.
  Allocation* find_file(std::uint64_t device, std::uint64_t number) const;
  // The same for a registered range by its host address.
  Allocation* find_registered(std::uint64_t host_address) const;

  // Where a device finds [address, address + bytes), or null after reporting the violation. `who`
  // is called only to describe the culprit.
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
  std::byte* bytes_ = nullptr;                 // where it really is
  std::atomic<Allocation*>* table_ = nullptr;  // by granule of the range
  mutable std::shared_mutex mutex_;
  std::uint64_t next_ = kGranule;
  std::map<std::uint64_t, Allocation*> host_;  // by address; pinned and managed
  std::vector<std::unique_ptr<Allocation>> all_;
  std::atomic<std::uint64_t> host_changes_{1};
};

}  // namespace rondo::simt
