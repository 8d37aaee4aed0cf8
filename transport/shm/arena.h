// Arena: the memory behind ncclMemAlloc on the host, which every process of the host can map.
//
// One sparse memory file per process, as large as the machine's memory. Its descriptor travels at
// communicator init, so a buffer inside it can be read and written by peers in place, named by its
// offset. Guarantees: allocate() returns 4096-aligned zeroed memory that is present, or an error; a
// freed range gives its memory back. A forked child starts an arena of its own.
// Cost: allocation is a system call and a first touch; never in a data path.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>

#include "base/fd.h"
#include "base/process.h"
#include "base/result.h"
#include "transport/shm/memfd.h"

namespace rondo::shm {

class Arena {
 public:
  static constexpr std::size_t kAlignment = 4096;

  // This process's arena, made at first use.
  static Result<std::shared_ptr<Arena>> of_process();

  Result<void*> allocate(std::size_t bytes);
  Done free(void* pointer);

  int fd() const { return fd_.get(); }
  std::byte* begin() const { return mapping_.data(); }
  std::size_t size() const { return mapping_.size(); }
  std::size_t allocated() const;

 private:
  Arena(Fd fd, Mapping mapping);

  Fd fd_;
  Mapping mapping_;
  mutable std::mutex mutex_;
  std::map<std::size_t, std::size_t> free_;  // offset -> bytes, neighbours merged
  std::map<std::size_t, std::size_t> used_;
};

// A peer process's arena as mapped here; every communicator of this process shares the mapping.
Result<std::shared_ptr<const Mapping>> map_peer_arena(const ProcessId& peer, Fd fd);

}  // namespace rondo::shm
