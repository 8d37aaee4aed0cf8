// UniqueId: the 128 bytes of an ncclUniqueId, with which ranks find each other.
//
// It contains the addresses (up to ten, IPv4 and IPv6) and the port of a rendezvous, and 32 random
// secret bytes. Any process that holds the id can join. So send the id over a trusted channel, or
// set RONDO_SECRET on all ranks (job_secret.h).
// With NCCL_COMM_ID=host:port it contains that address, and rank 0 serves there when it joins. The
// secret is then derived from the port only: without RONDO_SECRET any process that knows the port
// can join.
// Guarantees: decoding refuses bytes that make_unique_id() did not make. Cost: the first id of a
// process opens a listening socket and starts one thread, which serves all ids of the process and
// ends when no unused id is left.
//
//   RONDO_TRY(UniqueId id, make_unique_id());   // then hand the bytes to all ranks
#pragma once

#include "base/result.h"
#include "transport/bootstrap/secret.h"

namespace rondo::bootstrap {

struct UniqueId {
  char bytes[128] = {};
};

// Makes an id. Its rendezvous waits without limit for the first rank, then for that rank's timeout.
Result<UniqueId> make_unique_id();

// The same with a given secret, which other processes can derive too.
Result<UniqueId> make_unique_id(const Secret& secret);
// The id without its secret. Safe to send; not usable as an id.
Result<UniqueId> address_of(const UniqueId& id);

// Closes the rendezvous of an unused id of this process. No effect on other ids.
void forget_unique_id(const UniqueId& id);

// The id of a child communicator; all its ranks compute the same one. `address` is that of the
// leader's Listener; only the leader can serve the id. `secret` is derived from the parent's.
Result<UniqueId> child_id(const UniqueId& address, const Secret& secret);

}  // namespace rondo::bootstrap
