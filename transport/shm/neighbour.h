// Neighbour: another process of this host as this one knows it, once for all communicators.
//
// It holds a descriptor by which the end of the process is seen, and its arena: the descriptor of
// the file, and what of it has been mapped here. Guarantees: however many communicators the two
// processes share, they cost two descriptors, and an extent is mapped once; it stays mapped for as
// long as a communicator needs the process. Cost: 8 bytes of address space for every 64 MiB of the
// file; mapping an extent is a system call, once.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "base/fd.h"
#include "base/process.h"
#include "base/result.h"
#include "transport/connection.h"
#include "transport/shm/memfd.h"

namespace rondo::shm {

class Neighbour {
 public:
  // What is known of the process already, or else these descriptors.
  static Result<std::shared_ptr<Neighbour>> of(const ProcessId& process, Fd pidfd, Fd arena);

  int pidfd() const { return pidfd_.get(); }  // readable once the process has ended
  // PeerPort::arena.
  const std::uint64_t* pieces() const { return pieces_; }
  // Maps the extent in which the place lies.
  Status reach(std::uint64_t place);
  std::size_t mapped() const;  // address space

 private:
  Neighbour(Fd pidfd, Fd arena, std::size_t bytes, Mapping table);

  const Fd pidfd_, arena_;
  const std::size_t bytes_;  // of the arena's file
  const Mapping table_;
  std::uint64_t* const pieces_;  // in table_
  mutable std::mutex mutex_;
  std::vector<Mapping> extents_;
};

}  // namespace rondo::shm
