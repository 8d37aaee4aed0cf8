// SPDX-License-Identifier: Apache-2.0
#include "transport/shm/host_segment.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cassert>
#include <cerrno>
#include <cstdlib>
#include <memory>
#include <set>
#include <string_view>
#include <utility>

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

Result<std::shared_ptr<HostSegment>> HostSegment::create(const SegmentShape& shape, bool watched) {
  assert(shape.ranks > 0);
  const SegmentLayout layout(shape);
  const std::size_t total = layout.total + (watched ? kSegmentPage : 0);
  RONDO_TRY(Fd fd, create_memfd_if_permitted(watched ? kWatchedFile : kSegmentFile, total));
  RONDO_TRY(Mapping mapping, Mapping::map(fd.get(), total));
  RONDO_CHECK_OK(commit(mapping.data(), layout.traces, "communicator state"));
  if (watched)
    RONDO_CHECK_OK(commit(mapping.data() + layout.total, kSegmentPage, "counts of messages"));
  *reinterpret_cast<SegmentHeader*>(mapping.data()) = {kSegmentMagic, kLayoutVersion,
                                                       static_cast<std::uint32_t>(shape.ranks),
                                                       total, watched ? layout.total : 0};
  std::shared_ptr<HostSegment> made(new HostSegment(std::move(fd), std::move(mapping), shape));
  made->watched_ = watched;
  return made;
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
  assert(index >= 0 && index < shape_.ranks);
  const SegmentLayout layout(shape_);
  std::byte* base = mapping_.data();
  const auto i = static_cast<std::size_t>(index);
  PeerPort port = layout.words_of(base, index);
  port.staging = base + layout.staging + i * shape_.staging_bytes;
  return port;
}

ActivityLine* HostSegment::activity(int index) const {
  assert(index >= 0 && index < shape_.ranks);
  return &SegmentLayout(shape_).own_words(mapping_.data(), index)->activity;
}

WatchedMessages* HostSegment::messages() const {
  if (!watched_) return nullptr;
  return reinterpret_cast<WatchedMessages*>(mapping_.data() + SegmentLayout(shape_).total);
}

Connection HostSegment::connection(int from, int to, int lane) const {
  assert(from != to && from >= 0 && from < shape_.ranks && to >= 0 && to < shape_.ranks);
  assert(lane >= 0 && lane < kLanes);
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
  assert(from != to && lane >= 0 && lane < kLanes);
  const SegmentLayout layout(shape_);
  RONDO_CHECK_OK(commit(mapping_.data() + layout.connection(from, to, lane), layout.connection_each,
                        "connection slots"));
  return layout.connection_each;
}

namespace {

constexpr std::uint32_t kMaxRanks = 1 << 20;

SegmentShape shape_of(int ranks) { return {ranks, 0, 0, 0}; }

}  // namespace

Result<SegmentView> SegmentView::open(const std::string& path) {
  const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return fail_errno(errno, "cannot open {}", path);
  SegmentHeader header{};
  struct stat info {};
  if (fstat(fd.get(), &info) != 0 ||
      pread(fd.get(), &header, sizeof(header), 0) != static_cast<ssize_t>(sizeof(header)) ||
      header.magic != kSegmentMagic || header.ranks == 0 || header.ranks > kMaxRanks)
    return fail(StatusCode::kInvalidArgument, "{} is not the memory of a communicator", path);
  if (header.version != kLayoutVersion)
    return fail(StatusCode::kInvalidUsage,
                "{} has layout {}, but this program reads layout {}: use the rondo command of the "
                "same build",
                path, header.version, kLayoutVersion);
  const auto ranks = static_cast<int>(header.ranks);
  const SegmentLayout layout(shape_of(ranks));
  const bool watched = header.watched_at == layout.total;
  const std::size_t bytes = watched ? layout.total + kSegmentPage : layout.staging;
  if (static_cast<std::uint64_t>(info.st_size) < bytes)
    return fail(StatusCode::kInvalidArgument, "{} is shorter than its header says", path);
  void* data = mmap(nullptr, bytes, PROT_READ, MAP_SHARED, fd.get(), 0);
  if (data == MAP_FAILED) return fail_errno(errno, "cannot map {}", path);
  return SegmentView(data, bytes, ranks, watched);
}

SegmentView::SegmentView(SegmentView&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      bytes_(other.bytes_),
      ranks_(other.ranks_),
      watched_(other.watched_) {}

SegmentView::~SegmentView() {
  if (data_ != nullptr) munmap(data_, bytes_);
}

const ActivityLine& SegmentView::activity(int index) const {
  assert(index >= 0 && index < ranks_);
  return SegmentLayout(shape_of(ranks_)).own_words(static_cast<std::byte*>(data_), index)->activity;
}

const WatchedMessages* SegmentView::messages() const {
  if (!watched_) return nullptr;
  return reinterpret_cast<const WatchedMessages*>(static_cast<std::byte*>(data_) + bytes_ -
                                                  kSegmentPage);
}

PeerPort SegmentView::port(int index) const {
  assert(index >= 0 && index < ranks_);
  return SegmentLayout(shape_of(ranks_)).words_of(static_cast<std::byte*>(data_), index);
}

namespace {

// target: what the link of a descriptor points to.
bool is_file(std::string_view target, std::string_view name) {
  return target == fmt::format("/memfd:{} (deleted)", name);
}

}  // namespace

Result<std::vector<std::string>> segments_of(int pid) {
  const std::string folder = fmt::format("/proc/{}/fd", pid);
  const std::unique_ptr<DIR, int (*)(DIR*)> directory(opendir(folder.c_str()), closedir);
  if (!directory) {
    if (errno == ENOENT) return fail(StatusCode::kInvalidArgument, "there is no process {}", pid);
    if (errno == EACCES || errno == EPERM)
      return fail(StatusCode::kSystemError,
                  "process {} belongs to another user: ask as that user, or as root", pid);
    return fail_errno(errno, "cannot read {}", folder);
  }
  std::vector<std::pair<int, std::string>> own, watched;
  std::set<ino_t> seen;
  while (const dirent* entry = readdir(directory.get())) {
    const std::string path = folder + '/' + entry->d_name;
    char target[64] = "";
    if (readlink(path.c_str(), target, sizeof(target) - 1) < 0) continue;
    struct stat info {};
    const bool is_watched = is_file(target, kWatchedFile);
    if ((!is_watched && !is_file(target, kSegmentFile)) || stat(path.c_str(), &info) != 0 ||
        !seen.insert(info.st_ino).second)
      continue;
    (is_watched ? watched : own).emplace_back(std::atoi(entry->d_name), path);
  }
  auto& found = watched.empty() ? own : watched;
  std::sort(found.begin(), found.end());
  std::vector<std::string> paths;
  for (auto& [number, path] : found) paths.push_back(std::move(path));
  return paths;
}

}  // namespace rondo::shm
