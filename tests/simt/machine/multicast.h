// SPDX-License-Identifier: Apache-2.0
// Multicast: an object to which several devices bind their own memory. All of it is then accessed
// at one address, by multimem instructions only.
//
// The object's state is in a memfd, so processes that receive the descriptor can take part: rows
// list the bound memory, and other processes map it by its owner's descriptor. A store reaches
// every device's memory, one after the other in an order that the seed chooses; a load adds the
// values of all devices, in such an order, accumulated in float32. Violations: access by a device
// that was not added or has no access, where some device has bound nothing, unaligned, or by an
// ordinary load, store or copy. Memory bound by a process that has ended has undefined content: no
// driver documents what happens to it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>

namespace rondo::simt {

struct Allocation;
class AddressSpace;

class MulticastObject {
 public:
  MulticastObject(std::size_t bytes, int wanted);  // wanted: number of devices
  // Opens an object of another process by its file. Null if the file is not a multicast object.
  static MulticastObject* open(int file);
  ~MulticastObject();
  MulticastObject(const MulticastObject&) = delete;
  MulticastObject& operator=(const MulticastObject&) = delete;

  std::size_t bytes() const { return shared_->bytes; }
  int file() const { return file_; }
  std::uint32_t added() const { return shared_->added; }  // bit mask of devices
  bool complete() const { return __builtin_popcount(added()) == shared_->wanted; }
  bool add(int device);  // false: already added, or the object has all its devices
  // Binds memory of this process: a mapping and an offset in it. False: already bound there.
  bool bind(int device, std::size_t at, std::size_t bytes, const Allocation& memory,
            std::size_t memory_at);
  bool unbind(int device, std::size_t at, std::size_t bytes);

  // Address in this process of the bytes at `at` bound by the device; null: none.
  std::byte* place(const AddressSpace& memory, int device, std::size_t at, std::size_t bytes) const;

 private:
  enum State : std::uint32_t { kFree, kBeingWritten, kBound };
  struct Row {
    std::atomic<std::uint32_t> state;
    int device, process, file;  // the process's own descriptor of the memory
    std::uint64_t number;       // never reused
    std::size_t at, bytes, memory_at;
    bool covers(std::size_t first, std::size_t count) const {
      return first >= at && first + count <= at + bytes;
    }
    bool overlaps(std::size_t first, std::size_t count) const {
      return first < at + bytes && at < first + count;
    }
  };
  static constexpr int kRows = 64;
  struct Shared {
    std::size_t bytes;
    int wanted;
    std::atomic<std::uint32_t> added;
    std::atomic<std::uint64_t> numbers;
    Row rows[kRows];
  };
  // Memory of a row in this process: an existing mapping, or one made for it.
  struct Found {
    const Allocation* memory = nullptr;
    std::byte* mapped = nullptr;
    std::size_t bytes = 0;
  };

  explicit MulticastObject(int file);
  const Found& find(const AddressSpace& memory, const Row& row) const;
  static Found map(const Row& row);

  const int file_;
  Shared* shared_ = nullptr;
  mutable std::mutex mutex_;
  mutable std::map<std::uint64_t, Found> found_;  // by row number
};

// Number of accesses by this process's kernels so far.
std::uint64_t multicast_accesses();
// A defect of the switch: from now on, sums that this process's kernels read are wrong, or right.
void spoil_sums(bool wrong);

}  // namespace rondo::simt
