// SPDX-License-Identifier: Apache-2.0
// Neighbour: another process of this host; one object for all communicators of this process.
//
// It holds a pidfd, which shows when the process ends, and the process's arena: the descriptor of
// its file and the extents that are mapped here. Guarantees: any number of shared communicators
// costs two descriptors, and each extent is mapped once. An extent stays mapped as long as a
// communicator needs the process. Cost: 8 bytes of address space per 64 MiB of the file; mapping an
// extent is one system call.
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
  // The existing object for the process, or a new one with these descriptors.
  static Result<std::shared_ptr<Neighbour>> of(const ProcessId& process, Fd pidfd, Fd arena);

  int pidfd() const { return pidfd_.get(); }  // readable once the process has ended
  // PeerPort::arena.
  const std::uint64_t* pieces() const { return pieces_; }
  // Maps the extent that contains the place.
  Status reach(std::uint64_t place);
  std::size_t mapped() const;  // address space

 private:
  Neighbour(Fd pidfd, Fd arena, std::size_t bytes, Mapping table);

  const Fd pidfd_, arena_;
  const std::size_t bytes_;  // size of the arena's file
  const Mapping table_;
  std::uint64_t* const pieces_;  // in table_
  mutable std::mutex mutex_;
  std::vector<Mapping> extents_;
};

}  // namespace rondo::shm
