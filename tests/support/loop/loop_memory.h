// What the loop network's "adapter" knows of memory: shared memory files that peers of this host
// open by number, and in them what was registered.
//
// As with a real adapter, a key names memory. A writer needs the key, and an address and a length
// within that memory; a key that was taken back writes nothing more. What peers write lands in the
// file: the owner sees it once the link has flushed, as a GPU sees what an adapter has written. A
// dmabuf file is mapped, and read and written there.
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
  // Of another process, by its descriptor there; at least `bytes` long.
  static Result<SharedFile> open(int pid, int fd, std::size_t bytes);
  // The same file as this process's descriptor; `bytes` from `offset` on.
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
  Fd fd_;  // the owner's
  std::span<std::byte> bytes_;
};

// What stands before the bytes of registered memory.
struct RegionHeader {
  std::atomic<std::uint64_t> key;  // 0: taken back
  std::uint64_t bytes;
};
inline constexpr std::size_t kRegionHeader = 64;

// What a peer's region is for puts. The bytes are written where they are in that process, whose
// program takes no part: by the kernel, as an adapter would.
struct PackedRegion {
  std::int32_t pid = 0;
  net::MemoryKey key = 0;
  std::uint64_t address = 0, bytes = 0;

  std::vector<std::byte> encode() const;
  static std::optional<PackedRegion> decode(std::span<const std::byte> bytes);
};

// The memory that a rank registered, by key.
class LoopMemory {
 public:
  Result<net::MemoryKey> add(const net::Memory& memory);
  void remove(net::MemoryKey key);
  // Where `bytes` begin in the memory that the key names; nothing: they are not all in it.
  std::optional<std::uint64_t> offset_of(net::MemoryKey key,
                                         std::span<const std::byte> bytes) const;
  // What is to be sent, where this process can read it. Of bytes in the memory of the key.
  std::span<const std::byte> readable(net::MemoryKey key, std::span<const std::byte> bytes) const;
  Result<PackedRegion> pack(net::MemoryKey key) const;
  // Moves what peers wrote at `offset` to where its owner sees it.
  Status flush(net::MemoryKey key, std::uint64_t offset, std::uint64_t bytes) const;
  ~LoopMemory() { everywhere() -= regions_.size(); }
  static std::atomic<std::size_t>& everywhere();  // how many regions this process has
  // Bytes that this process has sent from, and got into, dmabuf files.
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

// Regions of one peer, as a sender opens them.
class RemoteMemory {
 public:
  // One-sided: writes into the peer's memory. The text says what was wrong: nothing was written.
  std::optional<std::string> write(int pid, net::MemoryKey key, std::uint64_t offset,
                                   std::span<const std::byte> body);
  std::optional<std::string> put(const PackedRegion& region, std::uint64_t offset,
                                 std::span<const std::byte> body);

 private:
  // Its file, while the key is the memory's.
  Result<const SharedFile*> find(int pid, net::MemoryKey key);
  std::map<net::MemoryKey, SharedFile> opened_;
};

}  // namespace rondo::test
