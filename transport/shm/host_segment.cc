#include "transport/shm/host_segment.h"

namespace rondo::shm {
namespace {

constexpr std::uint64_t kMagic = 0x316f646e6f72ULL;  // "rondo1"
constexpr std::size_t kPage = 4096;

constexpr std::size_t round_up(std::size_t bytes, std::size_t to) {
  return (bytes + to - 1) / to * to;
}

struct Header {
  std::uint64_t magic;
  std::uint32_t version;
  std::uint32_t ranks;
  std::uint64_t total_bytes;
};

// The words of one rank, except the flag bytes, which lie together for all ranks.
struct RankWords {
  AnnounceLine announcements[kAnnounceDepth];
  ExposureLine exposures[kAnnounceDepth];
  StepLine steps;
  ProgressLine progress;
  FaultSlot fault;
  GroupList group;
  alignas(kLineBytes) std::uint32_t bell;
};

struct ConnectionWords {
  alignas(kLineBytes) std::uint64_t tail;
  alignas(kLineBytes) std::uint64_t head;
};

// Byte offsets of everything in a segment.
struct Layout {
  explicit Layout(const SegmentShape& shape) : s(shape) {
    const auto ranks = static_cast<std::size_t>(s.ranks);
    flags_each = round_up(ranks, kLineBytes);
    parked = kLineBytes;
    faulted = parked + flags_each;
    words = round_up(faulted + flags_each, kPage);
    words_each = round_up(sizeof(RankWords), kPage);
    staging = words + ranks * words_each;
    connections = staging + ranks * s.staging_bytes;
    records = round_up(sizeof(ConnectionWords), kLineBytes);
    used = records + s.slot_count * sizeof(CallRecord);
    slots = round_up(used + s.slot_count * sizeof(std::uint64_t), kPage);
    connection_each = slots + round_up(s.slot_count * s.slot_bytes, kPage);
    total = connections + ranks * ranks * HostSegment::kLanes * connection_each;
  }
  std::size_t connection(int from, int to, int lane) const {
    const std::size_t pair = static_cast<std::size_t>(to) * s.ranks + from;
    return connections + (pair * HostSegment::kLanes + lane) * connection_each;
  }

  SegmentShape s;
  std::size_t flags_each, parked, faulted, words, words_each, staging, connections, records, used,
      slots, connection_each, total;
};

}  // namespace

HostSegment::HostSegment(Fd fd, Mapping mapping, const SegmentShape& shape)
    : fd_(std::move(fd)), mapping_(std::move(mapping)), shape_(shape) {}

Result<std::shared_ptr<HostSegment>> HostSegment::create(const SegmentShape& shape) {
  const Layout layout(shape);
  RONDO_TRY(Fd fd, create_memfd("rondo", layout.total));
  RONDO_TRY(Mapping mapping, Mapping::map(fd.get(), layout.total));
  RONDO_CHECK_OK(commit(mapping.data(), layout.staging, "communicator state"));
  *reinterpret_cast<Header*>(mapping.data()) = {
      kMagic, kLayoutVersion, static_cast<std::uint32_t>(shape.ranks), layout.total};
  return std::shared_ptr<HostSegment>(new HostSegment(std::move(fd), std::move(mapping), shape));
}

Result<std::shared_ptr<HostSegment>> HostSegment::map(Fd fd, const SegmentShape& shape) {
  const Layout layout(shape);
  RONDO_TRY(Mapping mapping, Mapping::map(fd.get(), layout.total));
  const auto& header = *reinterpret_cast<const Header*>(mapping.data());
  if (header.magic != kMagic || header.version != kLayoutVersion ||
      header.total_bytes != layout.total)
    return fail(Status::kInternalError,
                "shared memory has layout {} of {} bytes, expected layout {} of {} bytes",
                header.version, header.total_bytes, kLayoutVersion, layout.total);
  return std::shared_ptr<HostSegment>(new HostSegment(std::move(fd), std::move(mapping), shape));
}

PeerPort HostSegment::port(int index) const {
  const Layout layout(shape_);
  std::byte* base = mapping_.data();
  const auto i = static_cast<std::size_t>(index);
  auto* words = reinterpret_cast<RankWords*>(base + layout.words + i * layout.words_each);
  PeerPort port{};
  port.announcements = words->announcements;
  port.exposures = words->exposures;
  port.steps = &words->steps;
  port.progress = &words->progress;
  port.fault = &words->fault;
  port.group = &words->group;
  port.bell = &words->bell;
  port.parked = reinterpret_cast<std::uint8_t*>(base + layout.parked + i);
  port.faulted = reinterpret_cast<std::uint8_t*>(base + layout.faulted + i);
  port.staging = base + layout.staging + i * shape_.staging_bytes;
  return port;
}

Connection HostSegment::connection(int from, int to, int lane) const {
  const Layout layout(shape_);
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

Done HostSegment::commit_connection(int from, int to, int lane) const {
  const Layout layout(shape_);
  return commit(mapping_.data() + layout.connection(from, to, lane), layout.connection_each,
                "connection slots");
}

}  // namespace rondo::shm
