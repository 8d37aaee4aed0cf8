// SPDX-License-Identifier: Apache-2.0
#include "collectives/gpu/agree/control_segment.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/atomics.h"
#include "transport/memory/pinned_file.h"
#include "transport/shm/memfd.h"

namespace rondo::gpu {
namespace {

constexpr std::uint64_t kLayout = 0x726f6e646f000009;  // changes with any struct of the segment

struct Header {
  std::uint64_t layout, staging_bytes, ranks, processes;
  cuda::DeviceWords words;
};

// Descriptors per rank: the fewer ranks, the more descriptors for captured calls.
std::uint32_t depth_for(int ranks) {
  return kPlainDescriptors +
         std::clamp<std::uint32_t>(65536u / static_cast<std::uint32_t>(ranks), 1024, 16384);
}

}  // namespace

ControlSegment::ControlSegment(int ranks, int processes)
    : ranks_(ranks), processes_(processes), depth_(depth_for(ranks)) {
  std::size_t next = sizeof(Header);
  const auto place = [&](std::size_t each, std::size_t count) {
    return std::exchange(next, next + (each * count + 63) / 64 * 64);
  };
  const auto n = static_cast<std::size_t>(ranks);
  processes_at_ = place(sizeof(ProcessLines), static_cast<std::size_t>(processes));
  call_slots_at_ = place(sizeof(cuda::CallSlot), n);
  descriptors_at_ = place(sizeof(cuda::CallDescriptor), n * depth_);
  pairs_at_ = place(sizeof(MessagePair), n * n);
  notes_at_ = place(sizeof(MessageNote), n * n * 2 * kMessageDepth);
  questions_at_ = place(sizeof(MemoryNote),
                        static_cast<std::size_t>(processes) * static_cast<std::size_t>(processes));
  offers_at_ = place(sizeof(MemoryNote), n);
  refused_at_ = place(1, n * n);
  recall_at_ = place(sizeof(std::uint64_t), 1);
  constexpr std::size_t kPage = 4096;
  bytes_ = (next + kPage - 1) / kPage * kPage;
}

Status ControlSegment::map(Fd fd) {
  fd_ = std::move(fd);
  RONDO_TRY(memory_, map_pinned(fd_.get(), bytes_, "flags of ranks that share a GPU"));
  RONDO_TRY(device_, address_on_device(memory_));
  return ok_status();
}

Result<std::unique_ptr<ControlSegment>> ControlSegment::create(const Shape& shape) {
  std::unique_ptr<ControlSegment> segment(new ControlSegment(shape.ranks, shape.processes));
  RONDO_TRY(Fd fd, shm::create_memfd("rondo-gpu", segment->bytes_));
  RONDO_CHECK_OK(segment->map(std::move(fd)));
  auto& header = *segment->at<Header>(0);
  header.staging_bytes = shape.staging_bytes;
  header.ranks = static_cast<std::uint64_t>(shape.ranks);
  header.processes = static_cast<std::uint64_t>(shape.processes);
  for (int from = 0; from < shape.ranks; ++from)
    for (int to = 0; to < shape.ranks; ++to)
      for (std::uint32_t& slot : segment->pair(from, to).slot) slot = kEmpty;
  HostAtomics::store_release(header.layout, kLayout);
  return segment;
}

Result<std::unique_ptr<ControlSegment>> ControlSegment::open(int fd, int ranks, int processes) {
  std::unique_ptr<ControlSegment> segment(new ControlSegment(ranks, processes));
  Fd own = Fd::duplicate_of(fd);
  if (!own) return fail_errno(errno, "cannot use the leader's memory file");
  RONDO_CHECK_OK(segment->map(std::move(own)));
  const auto& header = *segment->at<Header>(0);
  if (HostAtomics::load_acquire(header.layout) != kLayout ||
      header.ranks != static_cast<std::uint64_t>(ranks) ||
      header.processes != static_cast<std::uint64_t>(processes))
    return fail(StatusCode::kRemoteError, "all ranks on a GPU must run the same version of Rondo");
  return segment;
}

std::uint64_t ControlSegment::staging_bytes() const { return at<Header>(0)->staging_bytes; }
cuda::DeviceWords& ControlSegment::words() const { return at<Header>(0)->words; }

}  // namespace rondo::gpu
