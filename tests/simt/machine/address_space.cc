// SPDX-License-Identifier: Apache-2.0
#include "tests/simt/machine/address_space.h"

#include <fmt/core.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>

#include "tests/simt/machine/violation.h"

namespace rondo::simt {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::uint64_t kAlignment = 2 << 20;
constexpr std::size_t kTableBytes =
    AddressSpace::kRange / AddressSpace::kGranule * sizeof(std::atomic<Allocation*>);

constexpr std::uint64_t round_up(std::uint64_t value, std::uint64_t to) {
  return (value + to - 1) / to * to;
}

void* reserve_range(std::size_t bytes, int protection) {
  void* const range =
      mmap(nullptr, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (range != MAP_FAILED) return range;
  std::perror("emulated GPU: no address space");
  std::abort();
}

const char* name(MemoryKind kind) {
  constexpr const char* kNames[] = {"device", "pinned", "registered", "managed", "multicast"};
  return kNames[static_cast<int>(kind)];
}

}  // namespace

AddressSpace::AddressSpace() {
  // Threads cache what they found, keyed by this count; no two address spaces share a value.
  static std::atomic<std::uint64_t> spaces{0};
  host_changes_ = ++spaces << 32;
  reserved_ = reserve_range(kRange + kAlignment, PROT_NONE);
  range_ = round_up(reinterpret_cast<std::uint64_t>(reserved_), kAlignment);
  bytes_ = static_cast<std::byte*>(reserve_range(kRange, PROT_NONE));
  table_ =
      static_cast<std::atomic<Allocation*>*>(reserve_range(kTableBytes, PROT_READ | PROT_WRITE));
}

AddressSpace::~AddressSpace() {
  munmap(reserved_, kRange + kAlignment);
  munmap(bytes_, kRange);
  munmap(table_, kTableBytes);
}

std::uint64_t AddressSpace::reserve(std::size_t bytes, std::uint64_t alignment) {
  const std::lock_guard lock(mutex_);
  const std::uint64_t at = round_up(next_, alignment);
  if (bytes >= kRange || at + bytes + 2 * kGranule > kRange) return 0;
  next_ = round_up(at + bytes, kGranule) + kGranule;
  return range_ + at;
}

Allocation* AddressSpace::map(std::uint64_t at, std::size_t bytes, int file, std::uint64_t offset,
                              int device, std::uint32_t access, bool imported) {
  std::byte* const real = bytes_ + (at - range_);
  const std::size_t in_page = at % kPage;
  if (mmap(real - in_page, round_up(in_page + bytes, kPage), PROT_READ | PROT_WRITE,
           MAP_SHARED | MAP_FIXED, file, static_cast<off_t>(offset - in_page)) == MAP_FAILED) {
    return nullptr;
  }
  return add(std::unique_ptr<Allocation>(new Allocation{
      at, bytes, real, MemoryKind::kDevice, device, access, file, offset, 0, imported}));
}

Allocation* AddressSpace::add_pinned(void* memory, std::size_t bytes, MemoryKind kind) {
  const auto at = reinterpret_cast<std::uint64_t>(memory);
  return add(std::unique_ptr<Allocation>(
      new Allocation{at, bytes, static_cast<std::byte*>(memory), kind, -1, ~0u, -1, 0, at, false}));
}

Allocation* AddressSpace::add_registered(void* memory, std::size_t bytes) {
  const auto host = reinterpret_cast<std::uint64_t>(memory);
  // Same offset within a page, so that alignment is what the program expects.
  const std::uint64_t at = reserve(bytes + kPage) + host % kPage;
  return add(std::unique_ptr<Allocation>(new Allocation{at, bytes, static_cast<std::byte*>(memory),
                                                        MemoryKind::kRegistered, -1, ~0u, -1, 0,
                                                        host, false}));
}

Allocation* AddressSpace::map_multicast(std::uint64_t at,
                                        std::shared_ptr<const MulticastObject> object) {
  const std::size_t bytes = object->bytes();
  auto made = std::unique_ptr<Allocation>(
      new Allocation{at, bytes, nullptr, MemoryKind::kMulticast, -1, 0, -1, 0, 0, true});
  made->multicast = std::move(object);
  return add(std::move(made));
}

Allocation* AddressSpace::find_alias(std::uint64_t alias) const {
  const std::shared_lock lock(mutex_);
  for (const auto& one : all_)
    if (one->imported && one->host_alias == alias && !one->freed) return one.get();
  return nullptr;
}

Allocation* AddressSpace::find_file(std::uint64_t device, std::uint64_t number) const {
  const std::shared_lock lock(mutex_);
  struct stat file {};
  for (const auto& one : all_)
    if (one->imported && one->file >= 0 && !one->freed && fstat(one->file, &file) == 0 &&
        file.st_dev == device && file.st_ino == number)
      return one.get();
  return nullptr;
}

Allocation* AddressSpace::add(std::unique_ptr<Allocation> allocation) {
  Allocation* const added = allocation.get();
  const std::lock_guard lock(mutex_);
  all_.push_back(std::move(allocation));
  if (in_range(added->begin)) {
    const std::uint64_t first = (added->begin - range_) / kGranule;
    const std::uint64_t last = (added->begin - range_ + added->bytes - 1) / kGranule;
    for (std::uint64_t i = first; i <= last; ++i) table_[i].store(added, std::memory_order_release);
  }
  if (added->kind != MemoryKind::kDevice && added->kind != MemoryKind::kMulticast) {
    host_[added->host_alias] = added;
    host_changes_.fetch_add(1, std::memory_order_release);
  }
  return added;
}

void AddressSpace::allow_device(int device, int owner) {
  const std::lock_guard lock(mutex_);
  for (const auto& allocation : all_)
    if (allocation->device == owner && !allocation->imported && !allocation->pooled)
      allocation->access.fetch_or(1u << device, std::memory_order_relaxed);
}

void AddressSpace::set_pool_access(int owner, std::uint32_t access) {
  const std::lock_guard lock(mutex_);
  for (const auto& allocation : all_)
    if (allocation->device == owner && allocation->given_out_by_pool())
      allocation->access.store(access, std::memory_order_relaxed);
}

void AddressSpace::release(Allocation& allocation) {
  allocation.freed.store(true, std::memory_order_release);
  if (allocation.kind == MemoryKind::kMulticast) return;
  const std::lock_guard lock(mutex_);
  if (allocation.kind != MemoryKind::kDevice) {
    host_.erase(allocation.host_alias);
    host_changes_.fetch_add(1, std::memory_order_release);
    return;
  }
  if (allocation.copied != nullptr) munmap(allocation.copied, allocation.bytes);
  const std::size_t in_page = allocation.begin % kPage;
  mmap(allocation.real - in_page, round_up(in_page + allocation.bytes, kPage), PROT_NONE,
       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

Allocation* AddressSpace::find(std::uint64_t address) const {
  if (in_range(address))
    return table_[(address - range_) / kGranule].load(std::memory_order_acquire);
  Allocation* const found = find_registered(address);
  return found != nullptr && found->kind != MemoryKind::kRegistered ? found : nullptr;
}

Allocation* AddressSpace::find_registered(std::uint64_t host_address) const {
  thread_local const AddressSpace* newest_space = nullptr;
  thread_local Allocation* newest = nullptr;
  thread_local std::uint64_t newest_changes = 0;
  const std::uint64_t changes = host_changes_.load(std::memory_order_acquire);
  if (newest_space == this && newest_changes == changes && newest != nullptr &&
      host_address - newest->host_alias < newest->bytes) {
    return newest;
  }
  const std::shared_lock lock(mutex_);
  auto after = host_.upper_bound(host_address);
  if (after == host_.begin()) return nullptr;
  Allocation* const found = std::prev(after)->second;
  if (host_address - found->host_alias >= found->bytes) return nullptr;
  newest_space = this, newest = found, newest_changes = changes;
  return found;
}

void AddressSpace::complain(const Allocation* found, int device, std::uint64_t address,
                            std::size_t bytes, const char* verb, const std::string& who) {
  const std::string access = fmt::format("{} {} {} bytes at {:#x}", who, verb, bytes, address);
  if (found == nullptr)
    return report(Violation::kBadAccess, access + ", where nothing was ever allocated");
  const std::string memory =
      fmt::format("{} bytes of {} memory at {:#x}{}", found->bytes, name(found->kind), found->begin,
                  found->device >= 0 ? fmt::format(" of device {}", found->device) : "");
  if (found->freed.load(std::memory_order_relaxed))
    return report(Violation::kUseAfterFree, fmt::format("{}: {} were freed", access, memory));
  if (!found->holds(address, bytes))
    return report(Violation::kBadAccess, fmt::format("{}: outside the {}", access, memory));
  if (found->pooled && !found->given_out_by_pool())
    return report(Violation::kBadAccess,
                  fmt::format("{}: the {} come later in the order of streams", access, memory));
  report(Violation::kBadAccess,
         fmt::format("{}: device {} may not touch the {}", access, device, memory));
}

}  // namespace rondo::simt
