// SPDX-License-Identifier: Apache-2.0
// Arena: the memory behind ncclMemAlloc on the host, which every process of the host can map.
//
// One sparse memory file per process. Processes exchange its descriptor at communicator init, so
// peers can read and write a buffer in it in place; they address it by its place
// (transport/connection.h). The file is mapped extent by extent as it grows, in this process and in
// peers, so address space is used only for allocated memory. Guarantees: allocate() returns zeroed
// memory that is present, on pages of its own, or an error; a freed range returns its memory to the
// system; extents never move. If ulimit -f is below the wanted file size, the file is as large as
// the limit allows. A forked child creates its own arena.
// Cost: allocation is a system call and a first touch; never in a data path.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "transport/connection.h"
#include "transport/shm/memfd.h"

namespace rondo::shm {

class Arena {
 public:
  // Of allocated memory: a page of the system (4, 16 or 64 KiB), which cut_off() can make private.
  static std::size_t alignment();

  // This process's arena, created at first use.
  static Result<std::shared_ptr<Arena>> of_process();

  Result<void*> allocate(std::size_t bytes);
  Status free(void* pointer);

  // Makes the range unreachable for other processes, even while they access it: its pages become
  // private in this process and keep their content. Data that shares its first or last page becomes
  // private too. The memory is never allocated again. Peers keep the file's pages as they are now.
  Status cut_off(const void* memory, std::size_t bytes);
  // True if no byte of the range has been cut off.
  bool is_reachable(const void* memory, std::size_t bytes) const;

  int fd() const { return fd_.get(); }  // -1: the process is not permitted to create memory files
  OwnArena places() const { return {places_, &withdrawals_}; }
  std::size_t allocated() const;
  std::size_t mapped() const;  // address space

 private:
  using Ranges = std::map<std::byte*, std::size_t>;
  using Place = Ranges::node_type;
  struct Extent {
    Mapping mapping;
    std::size_t offset;  // in the file
    Ranges free{};       // adjacent ranges are merged
  };

  Arena(Fd fd, Mapping table, std::size_t memory, std::size_t file);
  Result<std::byte*> take(std::size_t bytes);
  Result<Extent*> grow(std::size_t bytes);
  Result<Extent*> add_extent(std::size_t bytes);
  Extent& extent_of(const std::byte* at);
  std::size_t offset_of(const Extent& extent, const std::byte* at) const;
  bool overlaps_cut_off(const std::byte* begin, std::size_t bytes) const;
  Status make_private(std::byte* begin, std::size_t bytes);
  void add_free(Extent& extent, Place place);

  const Fd fd_;
  const Mapping table_;
  std::uint64_t* const places_;  // in table_
  const std::size_t memory_;     // bytes of the machine's memory
  const std::size_t file_;       // bytes of the file
  std::size_t next_ = 0;         // file offset where the next extent can start
  std::uint64_t withdrawals_ = 0;
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<Extent>> extents_;
  Ranges used_;
  std::size_t used_bytes_ = 0;
  std::map<const std::byte*, std::size_t> cut_off_;  // pages
};

}  // namespace rondo::shm
