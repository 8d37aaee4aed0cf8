// IdBoard: shows an id to other processes of this user on this host, until it is destroyed.
//
// Its abstract Unix socket is found by a name that both sides compute, followed by random bytes, so
// that nobody can take the name before us; the kernel says whose process is at the other end, and
// others than this user's are passed over on both sides. Leaves nothing behind.
// Cost: a thread that sleeps between visitors; a reader looks through /proc/net/unix.
//
//   RONDO_TRY(auto board, IdBoard::show(name, id));               // rank 0
//   RONDO_TRY(UniqueId id, read_board(name, deadline));           // the others
#pragma once

#include <memory>

#include "base/fd.h"
#include "base/result.h"
#include "base/thread.h"
#include "transport/bootstrap/secret.h"
#include "transport/bootstrap/unique_id.h"
#include "transport/socket/deadline.h"

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
  Thread thread_;
};

// Waits until somebody shows one.
Result<bootstrap::UniqueId> read_board(const bootstrap::Secret& name,
                                       const net::Deadline& deadline);

}  // namespace rondo::launch
