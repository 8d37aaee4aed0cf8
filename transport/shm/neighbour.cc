// SPDX-License-Identifier: Apache-2.0
#include "transport/shm/neighbour.h"

#include "base/atomics.h"
#include "base/shared_by_key.h"

namespace rondo::shm {

Neighbour::Neighbour(Fd pidfd, Fd arena, std::size_t bytes, Mapping table)
    : pidfd_(std::move(pidfd)),
      arena_(std::move(arena)),
      bytes_(bytes),
      table_(std::move(table)),
      pieces_(reinterpret_cast<std::uint64_t*>(table_.data())) {}

Result<std::shared_ptr<Neighbour>> Neighbour::of(const ProcessId& process, Fd pidfd, Fd arena) {
  static auto& all = *new SharedByKey<ProcessId, Neighbour>;
  return all.get(process, [&]() -> Result<std::shared_ptr<Neighbour>> {
    RONDO_TRY(const std::size_t bytes, sealed_bytes(arena.get()));
    RONDO_TRY(Mapping table, Mapping::reserve((bytes / kArenaPiece + 1) * sizeof(std::uint64_t)));
    return std::shared_ptr<Neighbour>(
        new Neighbour(std::move(pidfd), std::move(arena), bytes, std::move(table)));
  });
}

Status Neighbour::reach(std::uint64_t place) {
  const std::uint64_t size = std::uint64_t{1} << (place >> kPlaceOffsetBits & 63);
  const std::uint64_t begin = (place & kPlaceOffset) & ~(size - 1);
  if (size < kArenaPiece || size > bytes_ || begin > bytes_ - size)
    return fail(StatusCode::kInternalError,
                "a peer's buffer is at an invalid place ({:#x}) in its arena", place);
  std::lock_guard lock(mutex_);
  if (HostAtomics::load_relaxed(pieces_[begin >> kArenaPieceBits]) != 0) return ok_status();
  auto mapping = Mapping::map(arena_.get(), size, begin);
  if (!mapping.ok())
    return fail(mapping.code(), "cannot reach a peer's ncclMemAlloc buffer: {}",
                mapping.error().text);
  const auto first = reinterpret_cast<std::uint64_t>(mapping->data());
  for (std::uint64_t at = 0; at < size; at += kArenaPiece)
    HostAtomics::store_release(pieces_[(begin + at) >> kArenaPieceBits], first + at);
  extents_.push_back(std::move(*mapping));
  return ok_status();
}

std::size_t Neighbour::mapped() const {
  std::lock_guard lock(mutex_);
  std::size_t total = 0;
  for (const Mapping& extent : extents_) total += extent.size();
  return total;
}

}  // namespace rondo::shm
