// SPDX-License-Identifier: Apache-2.0
#include "transport/verbs/ibverbs/region.h"

#include <sys/mman.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace rondo::verbs {
namespace {

constexpr std::size_t kLine = 64;
constexpr std::size_t kBlock = 4u << 20;  // minimum that is mapped and registered at once
constexpr int kAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;

// No peer can read it through a link: only the queue pairs of ReadBack permit reads.
int access_of(const net::Memory& memory) {
  return memory.read_back ? kAccess | IBV_ACCESS_REMOTE_READ : kAccess;
}

std::size_t rounded(std::size_t bytes, std::size_t to) { return (bytes + to - 1) / to * to; }

Error refusal(int error, const DeviceContext& device, std::size_t bytes) {
  rlimit limit{};
  getrlimit(RLIMIT_MEMLOCK, &limit);
  if (error == ENOMEM && limit.rlim_cur != RLIM_INFINITY)
    return fail(StatusCode::kSystemError,
                "{} bytes cannot be registered with {}: this process may lock {} bytes in all; "
                "raise that (ulimit -l unlimited, docker run --ulimit memlock=-1)",
                bytes, device.name(), limit.rlim_cur);
  return fail_errno(error, "{} bytes cannot be registered with {}", bytes, device.name());
}

}  // namespace

Result<Region> Region::of(DeviceContext& device, std::span<std::byte> bytes, Ordering ordering) {
  return of(device, bytes, ordering, kAccess);
}

Result<Region> Region::of(DeviceContext& device, std::span<std::byte> bytes, Ordering ordering,
                          int access) {
  const Ibverbs& verbs = device.verbs();
  ibv_mr* registered = nullptr;
  if (ordering == Ordering::kRelaxed && device.options().relaxed_ordering &&
      verbs.reg_mr_iova2 != nullptr) {
    registered = verbs.reg_mr_iova2(device.domain(), bytes.data(), bytes.size(),
                                    reinterpret_cast<std::uintptr_t>(bytes.data()),
                                    static_cast<unsigned>(access) | IBV_ACCESS_RELAXED_ORDERING);
  } else {
    registered = verbs.reg_mr(device.domain(), bytes.data(), bytes.size(), access);
  }
  if (registered == nullptr) return refusal(errno, device, bytes.size());
  return Region(verbs, registered);
}

Result<Region> Region::of(DeviceContext& device, const net::Memory& memory) {
  if (memory.kind != net::Memory::Kind::kDmabuf)
    return of(device, memory.bytes, memory.ordered ? Ordering::kStrict : Ordering::kRelaxed,
              access_of(memory));
  const Ibverbs& verbs = device.verbs();
  if (verbs.reg_dmabuf_mr == nullptr)
    return fail(StatusCode::kSystemError,
                "libibverbs has no ibv_reg_dmabuf_mr: GPU memory needs rdma-core 34");
  const auto address = reinterpret_cast<std::uintptr_t>(memory.bytes.data());
  const unsigned relaxed = device.options().relaxed_ordering ? IBV_ACCESS_RELAXED_ORDERING : 0;
  ibv_mr* const registered = verbs.reg_dmabuf_mr(
      device.domain(), memory.offset, memory.bytes.size(), address, memory.dmabuf,
      static_cast<int>(static_cast<unsigned>(access_of(memory)) | relaxed));
  if (registered == nullptr)
    return fail_errno(errno, "{} bytes of a dmabuf file cannot be registered with {}",
                      memory.bytes.size(), device.name());
  return Region(verbs, registered);
}

Region::Region(Region&& other) noexcept
    : verbs_(other.verbs_), registered_(std::exchange(other.registered_, nullptr)) {}

Region& Region::operator=(Region&& other) noexcept {
  std::swap(verbs_, other.verbs_);
  std::swap(registered_, other.registered_);
  return *this;
}

Region::~Region() {
  if (registered_ != nullptr) verbs_->dereg_mr(registered_);
}

struct RegionPool::Block {
  // Unmaps on destruction.
  struct Mapping {
    explicit Mapping(std::span<std::byte> mapped) : bytes(mapped) {}
    Mapping(Mapping&& other) noexcept : bytes(std::exchange(other.bytes, {})) {}
    ~Mapping() {
      if (!bytes.empty()) munmap(bytes.data(), bytes.size());
    }
    std::span<std::byte> bytes;
  };
  struct Piece {
    std::size_t at, bytes;
  };
  Mapping memory;  // destroyed after its region
  Region region;
  std::vector<Piece> free;  // sorted by offset; no two are adjacent
};

RegionPool::RegionPool(DeviceContext& device, std::size_t maximum)
    : device_(device), max_(maximum) {}
RegionPool::~RegionPool() = default;

Status RegionPool::add_block(std::size_t minimum) {
  const std::size_t room = max_ - mapped_;
  const std::size_t bytes = std::min(std::max(rounded(minimum, kBlock), kBlock), room);
  if (bytes < minimum)
    return fail(StatusCode::kSystemError,
                "{} bytes of registered memory are wanted on {}, where {} of at most {} are in use",
                minimum, device_.name(), mapped_, max_);
  void* const at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) return fail_errno(errno, "mmap of {} bytes", bytes);
  Block::Mapping memory({static_cast<std::byte*>(at), bytes});
  if (madvise(at, bytes, MADV_DONTFORK) != 0) return fail_errno(errno, "madvise(MADV_DONTFORK)");
  RONDO_TRY(Region region, Region::of(device_, memory.bytes, Ordering::kStrict));
  mapped_ += bytes;
  blocks_.push_back(Block{std::move(memory), std::move(region), {{0, bytes}}});
  return ok_status();
}

Result<Slice> RegionPool::take(std::size_t bytes) {
  const std::size_t wanted = rounded(std::max<std::size_t>(bytes, 1), kLine);
  const auto fits = [&](const Block::Piece& piece) { return piece.bytes >= wanted; };
  for (int attempt = 0; attempt < 2; ++attempt) {
    for (Block& block : blocks_) {
      const auto piece = std::find_if(block.free.begin(), block.free.end(), fits);
      if (piece == block.free.end()) continue;
      const std::size_t at = std::exchange(piece->at, piece->at + wanted);
      piece->bytes -= wanted;
      if (piece->bytes == 0) block.free.erase(piece);
      return Slice{block.memory.bytes.subspan(at, bytes), block.region.local_key(),
                   block.region.remote_key()};
    }
    if (attempt == 0) RONDO_CHECK_OK(add_block(wanted));
  }
  return fail(StatusCode::kInternalError, "a new block of {} does not hold {} bytes",
              device_.name(), bytes);
}

void RegionPool::give_back(const Slice& slice) {
  for (Block& block : blocks_) {
    const std::byte* const begin = block.memory.bytes.data();
    if (slice.bytes.data() < begin || slice.bytes.data() >= begin + block.memory.bytes.size())
      continue;
    const Block::Piece given{static_cast<std::size_t>(slice.bytes.data() - begin),
                             rounded(std::max<std::size_t>(slice.bytes.size(), 1), kLine)};
    auto next = std::find_if(block.free.begin(), block.free.end(),
                             [&](const Block::Piece& piece) { return piece.at > given.at; });
    next = block.free.insert(next, given);
    if (const auto after = next + 1;
        after != block.free.end() && given.at + given.bytes == after->at)
      next->bytes += after->bytes, block.free.erase(after);
    if (next == block.free.begin()) return;
    if (const auto before = next - 1; before->at + before->bytes == next->at)
      before->bytes += next->bytes, block.free.erase(next);
    return;
  }
}

}  // namespace rondo::verbs
