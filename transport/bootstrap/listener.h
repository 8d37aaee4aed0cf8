// Listener: lets a rank lead communicators that are made from its own (split, shrink, grow).
//
// Every rank opens one at its communicator's init and sends address() to all. Later the ranks of a
// child compute child_id(leader's address, secret derived from the parent's) without a message. The
// leader serves that id with Session::serve_and_join() and the others join. Guarantees: several
// children can be served at once; ranks that arrive before the leader wait for it. Cost: 128 bytes.
// The process has one listening socket for all of them, and no thread runs while nothing is served.
//
//   RONDO_TRY(auto listener, Listener::open(session->met_at()));
//   RONDO_TRY(UniqueId id, child_id(addresses[leader], secret.derive("split", context)));
//   RONDO_TRY(auto child, rank == 0 ? Session::serve_and_join(*listener, {...})
//                                   : Session::join({...}));
#pragma once

#include <memory>
#include <span>

#include "base/result.h"
#include "transport/bootstrap/unique_id.h"
#include "transport/socket/address.h"

namespace rondo::bootstrap {

class Listener {
 public:
  // met_at: the rendezvous addresses of that communicator (net::own_addresses).
  static Result<std::shared_ptr<Listener>> open(std::span<const net::SocketAddress> met_at = {});

  const UniqueId& address() const { return address_; }  // an id without a secret

 private:
  explicit Listener(const UniqueId& address) : address_(address) {}
  UniqueId address_;
};

}  // namespace rondo::bootstrap
