// SPDX-License-Identifier: Apache-2.0
// The memory table of the loop network's "adapter": shared memory files that peers of this host
// open by number, and the regions registered in them.
//
// As with a real adapter, a key names memory. A writer needs the key, and an address and a length
// within that memory; a revoked key writes nothing more. Peers write into the file. The owner sees
// the data once the link has flushed, as a GPU sees what an adapter has written. A dmabuf file is
// mapped, and is read and written in place.
#pragma once

#include <atomic>
#include <map>
#include <optional>

#include "base/fd.h"
#include "base/result.h"
#include "transport/net/net.h"

namespace rondo::test {

// A memory file, mapped.
class SharedFile {
 public:
  static Result<SharedFile> make(std::size_t bytes);
  // Opens a file of another process by its descriptor there; the file has at least `bytes`.
  static Result<SharedFile> open(int pid, int fd, std::size_t bytes);
  // Maps `bytes` at `offset` of a file of this process, through a copy of its descriptor.
  static Result<SharedFile> copy(int fd, std::size_t bytes, std::uint64_t offset);
  SharedFile(SharedFile&& other) noexcept;
  SharedFile& operator=(SharedFile&&) = delete;
  ~SharedFile();

  std::span<std::byte> bytes() const { return bytes_; }
  template <class T>
  T& as() const {
    return *reinterpret_cast<T*>(bytes_.data());
  }
  int fd() const { return fd_.get(); }

 private:
  SharedFile(Fd fd, std::span<std::byte> bytes) : fd_(std::move(fd)), bytes_(bytes) {}
  Fd fd_;  // the owner's descriptor
  std::span<std::byte> bytes_;
};

// Precedes the bytes of registered memory.
struct RegionHeader {
  std::atomic<std::uint64_t> key;  // 0: revoked
  std::uint64_t bytes;
};
inline constexpr std::size_t kRegionHeader = 64;

// A peer's region, as a target of puts. The kernel writes the bytes at their address in that
// process, whose program takes no part, as an adapter would.
struct PackedRegion {
  std::int32_t pid = 0;
  net::MemoryKey key = 0;
  std::uint64_t address = 0, bytes = 0;

  std::vector<std::byte> encode() const;
  static std::optional<PackedRegion> decode(std::span<const std::byte> bytes);
};

// The memory that a rank has registered, by key.
class LoopMemory {
 public:
  Result<net::MemoryKey> add(const net::Memory& memory);
  void remove(net::MemoryKey key);
  // Offset of `bytes` in the memory of the key; nullopt if they are not entirely inside it.
  std::optional<std::uint64_t> offset_of(net::MemoryKey key,
                                         std::span<const std::byte> bytes) const;
  // Bytes to send, at an address that this process can read. `bytes` must be in the memory of the
  // key.
  std::span<const std::byte> readable(net::MemoryKey key, std::span<const std::byte> bytes) const;
  Result<PackedRegion> pack(net::MemoryKey key) const;
  // Copies what peers wrote at `offset` to where its owner sees it.
  Status flush(net::MemoryKey key, std::uint64_t offset, std::uint64_t bytes) const;
  ~LoopMemory() { everywhere() -= regions_.size(); }
  static std::atomic<std::size_t>& everywhere();  // number of regions of this process
  // Bytes that this process has sent from dmabuf files, and received into them.
  static std::atomic<std::uint64_t>& from_devices();
  static std::atomic<std::uint64_t>& into_devices();

 private:
  struct Region {
    net::Memory memory;
    std::optional<SharedFile> device;  // the dmabuf file
    SharedFile file;

    std::byte* here() const { return device ? device->bytes().data() : memory.bytes.data(); }
  };
  std::map<net::MemoryKey, Region> regions_;
};

// Regions of one peer, opened by a sender.
class RemoteMemory {
 public:
  // A one-sided write into the peer's memory. Returns an error text if nothing was written.
  std::optional<std::string> write(int pid, net::MemoryKey key, std::uint64_t offset,
                                   std::span<const std::byte> body);
  std::optional<std::string> put(const PackedRegion& region, std::uint64_t offset,
                                 std::span<const std::byte> body);

 private:
  // The file of the key, as long as the key is valid.
  Result<const SharedFile*> find(int pid, net::MemoryKey key);
  std::map<net::MemoryKey, SharedFile> opened_;
};

}  // namespace rondo::test
