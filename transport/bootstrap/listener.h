// Listener: lets a rank lead communicators that are made from its own (split, shrink, grow).
//
// Every rank opens one at its communicator's init and gives base() to all; later all ranks compute
// child_id(leader's base, context) without a message, the leader serves it with
// Session::serve_and_join() and the others join. Guarantees: several children may be served at
// once; ranks that come before the leader wait for it. Cost: 128 bytes; the listening socket is one
// for the whole process, and no thread runs while nothing is served.
//
//   RONDO_TRY(auto listener, Listener::open());
//   RONDO_TRY(UniqueId id, child_id(bases[leader], context));
//   RONDO_TRY(auto child, rank == 0 ? Session::serve_and_join(*listener, {...})
//                                   : Session::join({...}));
#pragma once

#include <memory>
#include <span>

#include "base/result.h"
#include "transport/bootstrap/unique_id.h"

namespace rondo::bootstrap {

class Listener {
 public:
  static Result<std::shared_ptr<Listener>> open();

  const UniqueId& base() const { return base_; }
  std::span<const std::byte> address_blob() const { return std::as_bytes(std::span(base_.bytes)); }
  // The id of the child that this listener's owner leads.
  UniqueId id_for(std::span<const std::byte> context) const;

 private:
  explicit Listener(const UniqueId& base) : base_(base) {}
  UniqueId base_;
};

}  // namespace rondo::bootstrap
