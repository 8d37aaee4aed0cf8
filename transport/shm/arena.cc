#include "transport/shm/arena.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

namespace rondo::shm {
namespace {

std::size_t round_up(std::size_t bytes) {
  return (bytes + Arena::kAlignment - 1) & ~(Arena::kAlignment - 1);
}

}  // namespace

Arena::Arena(Fd fd, Mapping mapping) : fd_(std::move(fd)), mapping_(std::move(mapping)) {
  free_.emplace(0, mapping_.size());
}

Result<std::shared_ptr<Arena>> Arena::of_process() {
  static std::mutex mutex;
  static auto& arena = *new std::shared_ptr<Arena>;  // never destroyed: threads may outlive main
  static std::uint32_t made_in = 0;
  std::lock_guard lock(mutex);
  if (arena && made_in == fork_generation()) return arena;
  const auto pages = static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES));
  const std::size_t bytes = round_up(pages * static_cast<std::size_t>(sysconf(_SC_PAGESIZE)));
  RONDO_TRY(Fd fd, create_memfd("rondo-arena", bytes));
  RONDO_TRY(Mapping mapping, Mapping::map(fd.get(), bytes));
  arena.reset(new Arena(std::move(fd), std::move(mapping)));
  made_in = fork_generation();
  return arena;
}

Result<void*> Arena::allocate(std::size_t bytes) {
  const std::size_t wanted = round_up(bytes == 0 ? 1 : bytes);
  std::size_t offset = 0;
  {
    std::lock_guard lock(mutex_);
    auto it = free_.begin();
    while (it != free_.end() && it->second < wanted) ++it;
    if (wanted < bytes || it == free_.end())
      return fail(Status::kSystemError,
                  "cannot allocate {} bytes: the machine has {} bytes of memory", bytes,
                  mapping_.size());
    offset = it->first;
    const std::size_t left = it->second - wanted;
    free_.erase(it);
    if (left > 0) free_.emplace(offset + wanted, left);
    used_.emplace(offset, wanted);
  }
  std::byte* pointer = mapping_.data() + offset;
  if (Done present = commit(pointer, wanted, "an ncclMemAlloc buffer"); !present.ok()) {
    (void)free(pointer).ok();
    return present.error();
  }
  return static_cast<void*>(pointer);
}

Done Arena::free(void* pointer) {
  const auto* at = static_cast<std::byte*>(pointer);
  std::lock_guard lock(mutex_);
  auto it = at >= mapping_.data() ? used_.find(static_cast<std::size_t>(at - mapping_.data()))
                                  : used_.end();
  if (it == used_.end())
    return fail(Status::kInvalidArgument, "{} was not allocated by ncclMemAlloc",
                fmt::ptr(pointer));
  std::size_t offset = it->first, bytes = it->second;
  used_.erase(it);
  fallocate(fd_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
            static_cast<off_t>(bytes));
  auto after = free_.lower_bound(offset);
  if (after != free_.end() && after->first == offset + bytes) {
    bytes += after->second;
    after = free_.erase(after);
  }
  if (after != free_.begin()) {
    auto before = std::prev(after);
    if (before->first + before->second == offset) {
      before->second += bytes;
      return done();
    }
  }
  free_.emplace(offset, bytes);
  return done();
}

std::size_t Arena::allocated() const {
  std::lock_guard lock(mutex_);
  std::size_t total = 0;
  for (const auto& [offset, bytes] : used_) total += bytes;
  return total;
}

Result<std::shared_ptr<const Mapping>> map_peer_arena(const ProcessId& peer, Fd fd) {
  static std::mutex mutex;
  static std::map<ProcessId, std::weak_ptr<const Mapping>> mapped;
  std::lock_guard lock(mutex);
  if (auto known = mapped[peer].lock()) return known;
  struct stat info {};
  if (fstat(fd.get(), &info) != 0) return fail_errno(errno, "cannot stat a peer's arena");
  RONDO_TRY(Mapping mapping, Mapping::map(fd.get(), static_cast<std::size_t>(info.st_size)));
  auto shared = std::make_shared<const Mapping>(std::move(mapping));
  mapped[peer] = shared;
  return shared;
}

}  // namespace rondo::shm
