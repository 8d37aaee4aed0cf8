// SPDX-License-Identifier: Apache-2.0
// UniqueId: the 128 bytes of an ncclUniqueId, with which ranks find each other.
//
// It contains the addresses (up to ten, IPv4 and IPv6) and the port of a rendezvous, and 32 random
// secret bytes. Any process that holds the id can join. So send the id over a trusted channel, or
// set RONDO_SECRET on all ranks (secret.h).
// With NCCL_COMM_ID=host:port it contains that address, and rank 0 serves there when it joins. The
// secret is then derived from the port only: without RONDO_SECRET any process that knows the port
// can join.
// Guarantees: decoding refuses bytes that make_unique_id() did not make. Cost: the first id of a
// process opens a listening socket and starts one thread, which serves all ids of the process and
// ends when no unused id is left.
//
//   RONDO_TRY(UniqueId id, make_unique_id());   // then hand the bytes to all ranks
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "transport/auth/hmac.h"
#include "transport/bootstrap/secret.h"
#include "transport/socket/address.h"

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

// IdContents: the decoded 128 bytes of a UniqueId.
//
// Layout, little-endian: magic and layout version (8), flags (1), number of addresses (1), port
// (2), secret (32), addresses (one byte, 4 or 6, then the address), zeros. The last four bytes are
// the first four of the SHA-256 of the rest.
using auth::Digest;

struct IdContents {
  bool served_by_rank_zero = false;  // NCCL_COMM_ID: no server until rank 0 joins
  std::uint16_t port = 0;
  std::vector<net::SocketAddress> addresses;  // including the port; the best first
  Digest secret{};
};

// Keeps as many addresses as fit.
UniqueId encode_id(const IdContents& contents);
Result<IdContents> decode_id(const UniqueId& id);

// The server and addresses of this process, without a secret. Opens no rendezvous.
Result<IdContents> own_contents(std::span<const net::SocketAddress> rendezvous_at = {});

// Listener: lets a rank lead communicators that are made from its own (split, shrink, grow).
//
// Every rank opens one at its communicator's init and sends address() to all. Later the ranks of a
// child compute child_id(leader's address, secret derived from the parent's) without a message. The
// leader serves that id with Session::serve_and_join() and the others join. Guarantees: several
// children can be served at once; ranks that arrive before the leader wait for it. Cost: 128 bytes.
// The process has one listening socket for all of them, and no thread runs while nothing is served.
//
//   RONDO_TRY(auto listener, Listener::open(session->rendezvous_at()));
//   RONDO_TRY(UniqueId id, child_id(addresses[leader], secret.derive("split", context)));
//   RONDO_TRY(auto child, rank == 0 ? Session::serve_and_join(*listener, {...})
//                                   : Session::join({...}));
class Listener {
 public:
  // rendezvous_at: the rendezvous addresses of that communicator (net::own_addresses).
  static Result<std::shared_ptr<Listener>> open(
      std::span<const net::SocketAddress> rendezvous_at = {});

  const UniqueId& address() const { return address_; }  // an id without a secret

 private:
  explicit Listener(const UniqueId& address) : address_(address) {}
  UniqueId address_;
};

}  // namespace rondo::bootstrap
