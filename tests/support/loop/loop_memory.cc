// SPDX-License-Identifier: Apache-2.0
#include "tests/support/loop/loop_memory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <random>

#include "base/bytes.h"

namespace rondo::test {
namespace {

// The low half identifies the file; the high half is random, so it cannot be guessed.
net::MemoryKey key_of(int fd) {
  std::random_device random;
  return static_cast<net::MemoryKey>(random() | 1u) << 32 | static_cast<std::uint32_t>(fd);
}
int fd_of(net::MemoryKey key) { return static_cast<int>(key & 0x7fffffff); }

Result<std::span<std::byte>> map(int fd, std::size_t bytes, std::uint64_t offset = 0) {
  void* at = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd,
                    static_cast<off_t>(offset));
  if (at == MAP_FAILED) return fail_errno(errno, "cannot map {} bytes", bytes);
  return std::span(static_cast<std::byte*>(at), bytes);
}

// True if this process can read the address. It may be unable to read a device's.
bool is_readable(std::span<std::byte> bytes) {
  std::byte first{};
  const iovec here{&first, 1}, there{bytes.data(), 1};
  return bytes.empty() || ::process_vm_readv(::getpid(), &here, 1, &there, 1, 0) == 1;
}

}  // namespace

Result<SharedFile> SharedFile::make(std::size_t bytes) {
  Fd fd(::memfd_create("rondo-loop", MFD_CLOEXEC));
  if (!fd || ::ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0)
    return fail_errno(errno, "no memory file of {} bytes", bytes);
  RONDO_TRY(const auto mapped, map(fd.get(), bytes));
  return SharedFile(std::move(fd), mapped);
}

Result<SharedFile> SharedFile::open(int pid, int fd, std::size_t bytes) {
  const Fd file(::open(fmt::format("/proc/{}/fd/{}", pid, fd).c_str(), O_RDWR | O_CLOEXEC));
  struct stat facts {};
  if (!file || ::fstat(file.get(), &facts) != 0)
    return fail_errno(errno, "cannot open memory {} of process {}", fd, pid);
  if (!S_ISREG(facts.st_mode) || static_cast<std::size_t>(facts.st_size) < bytes)
    return fail(StatusCode::kRemoteError, "memory {} of process {} is no file of {} bytes", fd, pid,
                bytes);
  RONDO_TRY(const auto mapped, map(file.get(), static_cast<std::size_t>(facts.st_size)));
  return SharedFile(Fd(), mapped);
}

Result<SharedFile> SharedFile::copy(int fd, std::size_t bytes, std::uint64_t offset) {
  RONDO_TRY(const auto mapped, map(fd, bytes, offset));
  return SharedFile(Fd(), mapped);
}

SharedFile::SharedFile(SharedFile&& other) noexcept
    : fd_(std::move(other.fd_)), bytes_(std::exchange(other.bytes_, {})) {}

SharedFile::~SharedFile() {
  if (!bytes_.empty()) ::munmap(bytes_.data(), bytes_.size());
}

std::atomic<std::size_t>& LoopMemory::everywhere() {
  static std::atomic<std::size_t> regions{0};
  return regions;
}

std::atomic<std::uint64_t>& LoopMemory::from_devices() {
  static std::atomic<std::uint64_t> bytes{0};
  return bytes;
}
std::atomic<std::uint64_t>& LoopMemory::into_devices() {
  static std::atomic<std::uint64_t> bytes{0};
  return bytes;
}

Result<net::MemoryKey> LoopMemory::add(const net::Memory& memory) {
  std::optional<SharedFile> device;
  if (memory.kind == net::Memory::Kind::kDmabuf) {
    RONDO_TRY(SharedFile mapped,
              SharedFile::copy(memory.dmabuf, memory.bytes.size(), memory.offset));
    device.emplace(std::move(mapped));
  } else if (!is_readable(memory.bytes)) {
    return fail(StatusCode::kSystemError, "{} bytes at {} cannot be registered: Bad address",
                memory.bytes.size(), static_cast<void*>(memory.bytes.data()));
  }
  RONDO_TRY(SharedFile file, SharedFile::make(kRegionHeader + memory.bytes.size()));
  const net::MemoryKey key = key_of(file.fd());
  file.as<RegionHeader>().bytes = memory.bytes.size();
  file.as<RegionHeader>().key.store(key);
  regions_.emplace(key, Region{memory, std::move(device), std::move(file)});
  ++everywhere();
  return key;
}

void LoopMemory::remove(net::MemoryKey key) {
  const auto it = regions_.find(key);
  if (it == regions_.end()) return;
  it->second.file.as<RegionHeader>().key.store(0);
  regions_.erase(it);
  --everywhere();
}

std::optional<std::uint64_t> LoopMemory::offset_of(net::MemoryKey key,
                                                   std::span<const std::byte> bytes) const {
  const auto it = regions_.find(key);
  if (it == regions_.end()) return std::nullopt;
  const std::span<std::byte> all = it->second.memory.bytes;
  if (bytes.data() < all.data() || bytes.data() + bytes.size() > all.data() + all.size())
    return std::nullopt;
  return static_cast<std::uint64_t>(bytes.data() - all.data());
}

std::span<const std::byte> LoopMemory::readable(net::MemoryKey key,
                                                std::span<const std::byte> bytes) const {
  if (bytes.empty()) return bytes;
  const Region& region = regions_.at(key);
  if (region.device) from_devices() += bytes.size();
  return {region.here() + (bytes.data() - region.memory.bytes.data()), bytes.size()};
}

Status LoopMemory::flush(net::MemoryKey key, std::uint64_t offset, std::uint64_t bytes) const {
  const Region& region = regions_.at(key);
  std::memcpy(region.here() + offset, region.file.bytes().data() + kRegionHeader + offset, bytes);
  if (region.device) into_devices() += bytes;
  return region.memory.flush ? region.memory.flush() : ok_status();
}

Result<PackedRegion> LoopMemory::pack(net::MemoryKey key) const {
  const auto it = regions_.find(key);
  if (it == regions_.end())
    return fail(StatusCode::kInternalError,
                "key {} does not belong to memory that peers may put into", key);
  const Region& region = it->second;
  return PackedRegion{::getpid(), key, reinterpret_cast<std::uintptr_t>(region.here()),
                      region.memory.bytes.size()};
}

std::vector<std::byte> PackedRegion::encode() const {
  ByteWriter out;
  out.put(pid);
  out.put(key);
  out.put(address);
  out.put(bytes);
  return out.take();
}

std::optional<PackedRegion> PackedRegion::decode(std::span<const std::byte> packed) {
  ByteReader in(packed);
  PackedRegion region;
  region.pid = in.get<std::int32_t>();
  region.key = in.get<net::MemoryKey>();
  region.address = in.get<std::uint64_t>();
  region.bytes = in.get<std::uint64_t>();
  const bool sound = in.finished() && region.pid > 0 && region.key != 0 && region.address != 0;
  return sound ? std::optional(region) : std::nullopt;
}

Result<const SharedFile*> RemoteMemory::find(int pid, net::MemoryKey key) {
  auto it = opened_.find(key);
  if (it == opened_.end()) {
    RONDO_TRY(SharedFile opened, SharedFile::open(pid, fd_of(key), kRegionHeader));
    it = opened_.emplace(key, std::move(opened)).first;
  }
  if (it->second.as<RegionHeader>().key.load() != key)
    return fail(StatusCode::kRemoteError, "its memory key names no memory");
  return &it->second;
}

std::optional<std::string> RemoteMemory::write(int pid, net::MemoryKey key, std::uint64_t offset,
                                               std::span<const std::byte> body) {
  const auto found = find(pid, key);
  if (!found.ok()) return found.error().text;
  const std::span<std::byte> all = (*found)->bytes().subspan(kRegionHeader);
  if (offset > all.size() || body.size() > all.size() - offset)
    return fmt::format("{} bytes at {} are not in its memory of {} bytes", body.size(), offset,
                       all.size());
  std::memcpy(all.data() + offset, body.data(), body.size());
  return std::nullopt;
}

std::optional<std::string> RemoteMemory::put(const PackedRegion& region, std::uint64_t offset,
                                             std::span<const std::byte> body) {
  if (const auto found = find(region.pid, region.key); !found.ok()) return found.error().text;
  if (offset > region.bytes || body.size() > region.bytes - offset)
    return fmt::format("{} bytes at {} are not in its memory of {} bytes", body.size(), offset,
                       region.bytes);
  const iovec here{const_cast<std::byte*>(body.data()), body.size()};
  const iovec there{reinterpret_cast<void*>(region.address + offset), body.size()};
  if (!body.empty() &&
      ::process_vm_writev(region.pid, &here, 1, &there, 1, 0) != static_cast<ssize_t>(body.size()))
    return fmt::format("{} bytes at {} of its memory cannot be written", body.size(), offset);
  return std::nullopt;
}

}  // namespace rondo::test
