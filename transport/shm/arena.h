// Arena: the memory behind ncclMemAlloc on the host, which every process of the host can map.
//
// One sparse memory file per process. Its descriptor travels at communicator init, so a buffer
// inside it can be read and written by peers in place, named by its place (transport/connection.h).
// It is mapped extent by extent as it grows, here and at the peers, so that it takes address space
// for what is allocated, not for what the machine has. Guarantees: allocate() returns 4096-aligned
// zeroed memory that is present, or an error; a freed range gives its memory back; extents never
// move. Where ulimit -f is lower than the file would be, the file is as long as that allows. A
// forked child starts an arena of its own.
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
  static constexpr std::size_t kAlignment = 4096;

  // This process's arena, made at first use.
  static Result<std::shared_ptr<Arena>> of_process();

  Result<void*> allocate(std::size_t bytes);
  Status free(void* pointer);

  // Takes the range out of the reach of other processes, whatever they are doing: the pages here
  // become private, with what they hold. Memory of it is never given out again; what shares its
  // first and last page goes with it. Peers keep the file's pages, as they are now.
  Status cut_off(const void* memory, std::size_t bytes);
  // Whether nothing of the range has been cut off.
  bool is_reachable(const void* memory, std::size_t bytes) const;

  int fd() const { return fd_.get(); }  // -1: this process may make no memory files
  OwnArena places() const { return {places_, &withdrawals_}; }
  std::size_t allocated() const;
  std::size_t mapped() const;  // address space

 private:
  using Ranges = std::map<std::byte*, std::size_t>;
  using Place = Ranges::node_type;
  struct Extent {
    Mapping mapping;
    std::size_t offset;  // in the file
    Ranges free{};       // neighbours merged
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
  const std::size_t memory_;     // of the machine
  const std::size_t file_;       // bytes
  std::size_t next_ = 0;         // of the file: not in an extent yet
  std::uint64_t withdrawals_ = 0;
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<Extent>> extents_;
  Ranges used_;
  std::size_t used_bytes_ = 0;
  std::map<const std::byte*, std::size_t> cut_off_;  // pages
};

}  // namespace rondo::shm
