// SPDX-License-Identifier: Apache-2.0
#include "transport/shm/arena.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cassert>
#include <cerrno>

#include "base/atomics.h"
#include "base/process.h"

namespace rondo::shm {
namespace {

constexpr std::size_t kLargestGrowth = std::size_t{1} << 30;  // unless a request is larger
constexpr std::size_t kFilePerMemory = 16;                    // room for partly empty extents

std::size_t round_up(std::size_t bytes) {
  return (bytes + Arena::alignment() - 1) & ~(Arena::alignment() - 1);
}

}  // namespace

std::size_t Arena::alignment() {
  static const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return page;
}

Arena::Arena(Fd fd, Mapping table, std::size_t memory, std::size_t file)
    : fd_(std::move(fd)),
      table_(std::move(table)),
      places_(reinterpret_cast<std::uint64_t*>(table_.data())),
      memory_(memory),
      file_(file) {}

Result<std::shared_ptr<Arena>> Arena::of_process() {
  static std::mutex mutex;
  static auto& arena = *new std::shared_ptr<Arena>;  // never destroyed: threads may outlive main
  static std::uint32_t made_in = 0;
  std::lock_guard lock(mutex);
  if (arena && made_in == fork_generation()) return arena;
  const auto pages = static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES));
  const std::size_t memory = round_up(pages * static_cast<std::size_t>(sysconf(_SC_PAGESIZE)));
  const std::size_t wanted =
      std::bit_ceil(std::max(memory, std::size_t{kArenaPiece})) * kFilePerMemory;
  const std::size_t file = std::min(wanted, std::bit_floor(max_file_bytes()));
  RONDO_TRY(Fd fd, create_memfd_if_permitted("rondo-arena", file));
  RONDO_TRY(Mapping table, Mapping::reserve(kArenaAddresses * sizeof(std::uint64_t)));
  arena.reset(new Arena(std::move(fd), std::move(table), memory, file));
  made_in = fork_generation();
  return arena;
}

Result<void*> Arena::allocate(std::size_t bytes) {
  const std::size_t wanted = round_up(bytes == 0 ? 1 : bytes);
  std::byte* pointer = nullptr;
  {
    std::lock_guard lock(mutex_);
    if (wanted < bytes || wanted > memory_ || used_bytes_ > memory_ - wanted)
      return fail(StatusCode::kSystemError,
                  "cannot allocate {} bytes: the machine has {} bytes of memory", bytes, memory_);
    auto place = used_.extract(used_.emplace(nullptr, wanted).first);  // allocate the node first
    RONDO_TRY(pointer, take(wanted));
    place.key() = pointer;
    used_.insert(std::move(place));
    used_bytes_ += wanted;
  }
  if (Status present = commit(pointer, wanted, "an ncclMemAlloc buffer"); !present.ok()) {
    (void)free(pointer).ok();
    return present.error();
  }
  return static_cast<void*>(pointer);
}

// Best fit: takes the smallest free range that is large enough, to keep large ranges whole.
Result<std::byte*> Arena::take(std::size_t bytes) {
  assert(bytes > 0 && bytes % alignment() == 0);
  Extent* from = nullptr;
  Ranges::iterator best;
  for (const auto& extent : extents_)
    for (auto it = extent->free.begin(); it != extent->free.end(); ++it)
      if (it->second >= bytes && (from == nullptr || it->second < best->second)) {
        from = extent.get();
        best = it;
      }
  if (from == nullptr) {
    RONDO_TRY(from, grow(bytes));
    best = from->free.begin();
  }
  std::byte* const pointer = best->first;
  const std::size_t left = best->second - bytes;
  auto rest = from->free.extract(best);  // nothing allocates from here on
  if (left == 0) return pointer;
  rest.key() = pointer + bytes;
  rest.mapped() = left;
  from->free.insert(std::move(rest));
  return pointer;
}

// Doubles the arena if possible, so that many small buffers lie in few extents.
Result<Arena::Extent*> Arena::grow(std::size_t bytes) {
  std::size_t present = 0;
  for (const auto& extent : extents_) present += extent->mapping.size();
  const std::size_t minimum = std::bit_ceil(std::max(bytes, std::size_t{kArenaPiece}));
  const std::size_t more = std::min(std::bit_floor(present), kLargestGrowth);
  if (more > minimum)
    if (auto made = add_extent(more); made.ok()) return made;
  return add_extent(minimum);
}

Result<Arena::Extent*> Arena::add_extent(std::size_t bytes) {
  assert(std::has_single_bit(bytes) && bytes >= kArenaPiece);
  const std::size_t offset = (next_ + bytes - 1) & ~(bytes - 1);
  if (offset > file_ || bytes > file_ - offset)
    return fail(StatusCode::kSystemError,
                "ncclMemAlloc has no room for {} bytes more: its {} extents hold {} bytes of a "
                "memory file of {}{}",
                bytes, extents_.size(), used_bytes_, file_,
                file_ < memory_ * kFilePerMemory ? ", which ulimit -f limits: raise it" : "");
  RONDO_TRY(Mapping mapping, Mapping::map(fd_.get(), bytes, offset, kArenaPiece));
  const auto first = reinterpret_cast<std::uintptr_t>(mapping.data()) >> kArenaPieceBits;
  if (first + (bytes >> kArenaPieceBits) > kArenaAddresses)
    return fail(StatusCode::kSystemError, "memory was mapped at {}, beyond 48 bits",
                fmt::ptr(mapping.data()));
  next_ = offset + bytes;
  const std::uint64_t size = static_cast<std::uint64_t>(std::countr_zero(bytes));
  for (std::size_t at = 0; at < bytes; at += kArenaPiece)
    HostAtomics::store_release(places_[first + (at >> kArenaPieceBits)],
                               size << kPlaceOffsetBits | (offset + at));
  auto extent = std::make_unique<Extent>(Extent{std::move(mapping), offset});
  extent->free.emplace(extent->mapping.data(), bytes);
  extents_.push_back(std::move(extent));
  return extents_.back().get();
}

Arena::Extent& Arena::extent_of(const std::byte* at) {
  return **std::find_if(extents_.begin(), extents_.end(), [&](const auto& extent) {
    return at >= extent->mapping.data() && at < extent->mapping.data() + extent->mapping.size();
  });
}

std::size_t Arena::offset_of(const Extent& extent, const std::byte* at) const {
  return extent.offset + static_cast<std::size_t>(at - extent.mapping.data());
}

Status Arena::free(void* pointer) {
  std::lock_guard lock(mutex_);
  auto it = used_.find(static_cast<std::byte*>(pointer));
  if (it == used_.end())
    return fail(StatusCode::kInvalidArgument, "{} was not allocated by ncclMemAlloc",
                fmt::ptr(pointer));
  Place place = used_.extract(it);  // reuse the node: free() allocates nothing
  const auto begin = place.key();
  const auto bytes = place.mapped();
  assert(bytes <= used_bytes_);
  used_bytes_ -= bytes;
  Extent& extent = extent_of(begin);
  if (fd_)
    fallocate(fd_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
              static_cast<off_t>(offset_of(extent, begin)), static_cast<off_t>(bytes));
  else
    madvise(begin, bytes, MADV_REMOVE);
  if (!overlaps_cut_off(begin, bytes)) {
    add_free(extent, std::move(place));
  } else {
    madvise(begin, bytes, MADV_DONTNEED);  // frees the private pages; the range is not used again
  }
  return ok_status();
}

void Arena::add_free(Extent& extent, Place place) {
  assert(place.key() >= extent.mapping.data() &&
         place.key() + place.mapped() <= extent.mapping.data() + extent.mapping.size());
  auto after = extent.free.lower_bound(place.key());
  if (after != extent.free.end() && after->first == place.key() + place.mapped()) {
    place.mapped() += after->second;
    after = extent.free.erase(after);
  }
  if (after != extent.free.begin()) {
    auto before = std::prev(after);
    if (before->first + before->second == place.key()) {
      before->second += place.mapped();
      return;
    }
  }
  extent.free.insert(std::move(place));
}

bool Arena::overlaps_cut_off(const std::byte* begin, std::size_t bytes) const {
  auto it = cut_off_.lower_bound(begin + bytes);
  return it != cut_off_.begin() && (--it)->first + it->second > begin;
}

bool Arena::is_reachable(const void* memory, std::size_t bytes) const {
  std::lock_guard lock(mutex_);
  return !overlaps_cut_off(static_cast<const std::byte*>(memory), bytes);
}

Status Arena::cut_off(const void* memory, std::size_t bytes) {
  const auto at = reinterpret_cast<std::uintptr_t>(memory);
  auto* next = reinterpret_cast<std::byte*>(at & ~(alignment() - 1));
  auto* const end = reinterpret_cast<std::byte*>(round_up(at + bytes));
  std::lock_guard lock(mutex_);
  while (next < end) {  // skip pages that are already cut off
    auto after = cut_off_.upper_bound(next);
    if (after != cut_off_.begin()) {
      const auto before = std::prev(after);
      if (before->first + before->second > next) {
        next = const_cast<std::byte*>(before->first) + before->second;
        continue;
      }
    }
    std::byte* const stop =
        after == cut_off_.end() ? end : std::min(end, const_cast<std::byte*>(after->first));
    RONDO_CHECK_OK(make_private(next, static_cast<std::size_t>(stop - next)));
    next = stop;
  }
  return ok_status();
}

// No concurrent write of another thread of this process is lost: the kernel maps a page read-only
// until the first write copies it. A call that began before `withdrawals_` was incremented checks
// the count again at its end.
Status Arena::make_private(std::byte* begin, std::size_t bytes) {
  const auto first = reinterpret_cast<std::uintptr_t>(begin) >> kArenaPieceBits;
  const auto last = reinterpret_cast<std::uintptr_t>(begin + bytes - 1) >> kArenaPieceBits;
  cut_off_.emplace(begin, bytes);
  for (auto piece = first; piece <= last; ++piece)
    HostAtomics::store_release(places_[piece], places_[piece] | kPlacePartly);
  HostAtomics::store_release(withdrawals_, withdrawals_ + 1);
  if (mmap(begin, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE | MAP_FIXED, fd_.get(),
           static_cast<off_t>(offset_of(extent_of(begin), begin))) == MAP_FAILED)
    return fail_errno(errno, "cannot map {} bytes again (vm.max_map_count?)", bytes);
  RONDO_CHECK_OK(commit(begin, bytes, "a buffer that peers may still reach"));
  for (std::byte* page = begin; page < begin + bytes; page += alignment())  // if commit() cannot
    std::atomic_ref<std::uint8_t>(reinterpret_cast<std::uint8_t&>(*page)).fetch_or(0);
  return ok_status();
}

std::size_t Arena::allocated() const {
  std::lock_guard lock(mutex_);
  return used_bytes_;
}

std::size_t Arena::mapped() const {
  std::lock_guard lock(mutex_);
  std::size_t total = 0;
  for (const auto& extent : extents_) total += extent->mapping.size();
  return total;
}

}  // namespace rondo::shm
