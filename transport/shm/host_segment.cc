#include "transport/shm/host_segment.h"

#include <sys/resource.h>

#include <algorithm>
#include <atomic>

#include "transport/shm/segment_layout.h"

namespace rondo::shm {
namespace {

std::atomic<int> shown{0};  // segments of this process with an open descriptor

int max_shown() {
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) != 0) return HostSegment::kShown;
  return static_cast<int>(std::min<rlim_t>(HostSegment::kShown, files.rlim_cur / 8));
}

}  // namespace

HostSegment::HostSegment(Fd fd, Mapping mapping, const SegmentShape& shape)
    : fd_(std::move(fd)), mapping_(std::move(mapping)), shape_(shape) {}

HostSegment::~HostSegment() {
  if (shown_) shown.fetch_sub(1, std::memory_order_relaxed);
}

void HostSegment::settle() {
  shown_ = shown.fetch_add(1, std::memory_order_relaxed) < max_shown();
  if (shown_) return;
  shown.fetch_sub(1, std::memory_order_relaxed);
  fd_.reset();
}

Result<std::shared_ptr<HostSegment>> HostSegment::create(const SegmentShape& shape) {
  const SegmentLayout layout(shape);
  RONDO_TRY(Fd fd, create_memfd_if_permitted("rondo", layout.total));
  RONDO_TRY(Mapping mapping, Mapping::map(fd.get(), layout.total));
  RONDO_CHECK_OK(commit(mapping.data(), layout.staging, "communicator state"));
  *reinterpret_cast<SegmentHeader*>(mapping.data()) = {
      kSegmentMagic, kLayoutVersion, static_cast<std::uint32_t>(shape.ranks), layout.total};
  return std::shared_ptr<HostSegment>(new HostSegment(std::move(fd), std::move(mapping), shape));
}

Result<std::shared_ptr<HostSegment>> HostSegment::map(Fd fd, const SegmentShape& shape) {
  const SegmentLayout layout(shape);
  RONDO_TRY(Mapping mapping, map_received(fd.get(), layout.total));
  const auto& header = *reinterpret_cast<const SegmentHeader*>(mapping.data());
  if (header.magic != kSegmentMagic || header.version != kLayoutVersion ||
      header.total_bytes != layout.total)
    return fail(StatusCode::kInternalError,
                "shared memory has layout {} of {} bytes, expected layout {} of {} bytes",
                header.version, header.total_bytes, kLayoutVersion, layout.total);
  return std::shared_ptr<HostSegment>(new HostSegment(std::move(fd), std::move(mapping), shape));
}

PeerPort HostSegment::port(int index) const {
  const SegmentLayout layout(shape_);
  std::byte* base = mapping_.data();
  const auto i = static_cast<std::size_t>(index);
  PeerPort port = layout.words_of(base, index);
  port.staging = base + layout.staging + i * shape_.staging_bytes;
  return port;
}

Connection HostSegment::connection(int from, int to, int lane) const {
  const SegmentLayout layout(shape_);
  std::byte* base = mapping_.data() + layout.connection(from, to, lane);
  auto* words = reinterpret_cast<ConnectionWords*>(base);
  Connection connection{};
  connection.buffer = base + layout.slots;
  connection.slot_bytes = shape_.slot_bytes;
  connection.slot_count = shape_.slot_count;
  connection.tail = &words->tail;
  connection.head = &words->head;
  connection.records = reinterpret_cast<CallRecord*>(base + layout.records);
  connection.used = reinterpret_cast<std::uint64_t*>(base + layout.used);
  return connection;
}

Result<std::size_t> HostSegment::commit_connection(int from, int to, int lane) const {
  const SegmentLayout layout(shape_);
  RONDO_CHECK_OK(commit(mapping_.data() + layout.connection(from, to, lane), layout.connection_each,
                        "connection slots"));
  return layout.connection_each;
}

}  // namespace rondo::shm
