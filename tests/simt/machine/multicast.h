// Multicast: an object to which several devices bind memory of their own, and which is then
// accessed at one address for all of them, by multimem instructions alone.
//
// What is done to an object lies in a memfd, so that processes that are given it take part: rows
// say which memory is bound; other processes map it by its owner's descriptor. A store
// reaches every device's memory, one after the other in an order that the seed chooses; a load adds
// up what all hold, in such an order, accumulated in float32. Violations: access by a device that
// was not added or not let in, where some device has bound nothing, off alignment, or by an
// ordinary load, store or copy. What an ended process has bound has undefined content: no driver
// says what becomes of it.
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
  MulticastObject(std::size_t bytes, int wanted);  // wanted: devices
  // What another process made: its file. Null where that is none of a multicast object.
  static MulticastObject* open(int file);
  ~MulticastObject();
  MulticastObject(const MulticastObject&) = delete;
  MulticastObject& operator=(const MulticastObject&) = delete;

  std::size_t bytes() const { return shared_->bytes; }
  int file() const { return file_; }
  std::uint32_t added() const { return shared_->added; }  // as bits
  bool complete() const { return __builtin_popcount(added()) == shared_->wanted; }
  bool add(int device);  // false: it is there, or all are
  // Memory of this process: a mapping, and from where in it. False: something is bound there.
  bool bind(int device, std::size_t at, std::size_t bytes, const Allocation& memory,
            std::size_t memory_at);
  bool unbind(int device, std::size_t at, std::size_t bytes);

  // Where this process finds the bytes at `at` of what the device has bound; null: nowhere.
  std::byte* place(const AddressSpace& memory, int device, std::size_t at, std::size_t bytes) const;

 private:
  enum State : std::uint32_t { kFree, kBeingWritten, kBound };
  struct Row {
    std::atomic<std::uint32_t> state;
    int device, process, file;  // the process's own descriptor of the memory
    std::uint64_t number;       // never used twice
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
  // Of a row, in this process: a mapping that it has anyway, or one made for it.
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
  mutable std::map<std::uint64_t, Found> found_;  // by number of a row
};

// Accesses of this process's kernels so far.
std::uint64_t multicast_accesses();

}  // namespace rondo::simt
