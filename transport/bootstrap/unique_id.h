// UniqueId: what ranks need to find each other, in the 128 bytes of an ncclUniqueId.
//
// It carries the addresses (up to ten, IPv4 and IPv6) and the port of a rendezvous, and 32 random
// secret bytes. Any process that holds the id may join. So the id must travel by a trusted channel,
// or the job must set RONDO_SECRET, which ranks must then know too (job_secret.h).
// With NCCL_COMM_ID=host:port it carries that address, rank 0 serves there when it joins, and the
// secret is only derived from the port: without RONDO_SECRET everybody who knows the port may join.
// Guarantees: decoding refuses bytes that no make_unique_id() made. Cost: the first id of a process
// opens a listening socket and starts one thread, which serves all ids of the process and ends when
// none is left unused.
//
//   RONDO_TRY(UniqueId id, make_unique_id());   // then hand the bytes to all ranks
#pragma once

#include "base/result.h"
#include "transport/bootstrap/secret.h"

namespace rondo::bootstrap {

struct UniqueId {
  char bytes[128] = {};
};

// An id whose rendezvous waits in this process for its first rank as long as it takes, and from
// then on as long as that rank's timeout says.
Result<UniqueId> make_unique_id();

// The same with a secret that other processes can derive too.
Result<UniqueId> make_unique_id(const Secret& secret);
// The id without its secret, which may travel; it serves as no id.
Result<UniqueId> address_of(const UniqueId& id);

// Ends the wait for an id of this process that nobody will use. Does nothing for other ids.
void forget_unique_id(const UniqueId& id);

// The id of a child communicator, computed alike by all its ranks: `address` is the Listener's of
// the child's leader, who alone can serve it; `secret` derives from the parent's.
Result<UniqueId> child_id(const UniqueId& address, const Secret& secret);

}  // namespace rondo::bootstrap
