#include "transport/shm/segment_view.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "transport/shm/segment_layout.h"

namespace rondo::shm {
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
  const std::size_t bytes = SegmentLayout(shape_of(ranks)).staging;
  if (static_cast<std::uint64_t>(info.st_size) < bytes)
    return fail(StatusCode::kInvalidArgument, "{} is shorter than its header says", path);
  void* data = mmap(nullptr, bytes, PROT_READ, MAP_SHARED, fd.get(), 0);
  if (data == MAP_FAILED) return fail_errno(errno, "cannot map {}", path);
  return SegmentView(data, bytes, ranks);
}

SegmentView::SegmentView(SegmentView&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(other.bytes_), ranks_(other.ranks_) {}

SegmentView::~SegmentView() {
  if (data_ != nullptr) munmap(data_, bytes_);
}

PeerPort SegmentView::port(int index) const {
  return SegmentLayout(shape_of(ranks_)).words_of(static_cast<std::byte*>(data_), index);
}

}  // namespace rondo::shm
