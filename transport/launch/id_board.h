// SPDX-License-Identifier: Apache-2.0
// IdBoard: publishes an id to other processes of this user on this host, until it is destroyed.
//
// It is an abstract Unix socket whose name is a prefix that both sides compute, followed by random
// bytes, so that no process can take the name first. The kernel reports the user of the process at
// the other end; both sides skip processes of other users. Leaves no files behind.
// Cost: one thread that sleeps between visitors. A reader scans /proc/net/unix.
//
//   RONDO_TRY(auto board, IdBoard::show(name, id));               // rank 0
//   RONDO_TRY(UniqueId id, read_board(name, deadline));           // the others
#pragma once

#include <atomic>
#include <memory>

#include "base/fd.h"
#include "base/result.h"
#include "base/thread.h"
#include "transport/bootstrap/secret.h"
#include "transport/bootstrap/unique_id.h"
#include "transport/socket/socket.h"

namespace rondo::launch {

class IdBoard {
 public:
  static Result<std::unique_ptr<IdBoard>> show(const bootstrap::Secret& name,
                                               const bootstrap::UniqueId& id);
  ~IdBoard();
  IdBoard(const IdBoard&) = delete;
  IdBoard& operator=(const IdBoard&) = delete;

 private:
  IdBoard(Fd listener, Fd bell, const bootstrap::UniqueId& id);
  void serve() const;

  const Fd listener_, bell_;
  const bootstrap::UniqueId id_;
  std::atomic<bool> ends_{false};  // also where the program has closed the bell
  Thread thread_;
};

// Waits until rank 0 shows one.
Result<bootstrap::UniqueId> read_board(const bootstrap::Secret& name,
                                       const net::Deadline& deadline);

}  // namespace rondo::launch
