// Knock: the connecting side of the handshake.
//
// Tries all addresses of a door, the first one with a head start, and keeps the connection whose
// other end first proves that it knows the secret; an address that means another machine here only
// fails its proof. Guarantees: ends by the deadline or abort, or when nobody has listened at any
// address for `refusal_grace`; keeps trying otherwise.
//
//   RONDO_TRY(net::FramedLink link, knock({.place = table.parent, .door = 0, ...}, patience));
#pragma once

#include <chrono>

#include "transport/bootstrap/credentials.h"
#include "transport/socket/framed_link.h"

namespace rondo::bootstrap {

struct KnockRequest {
  const Place& place;
  const Credentials& credentials;
  std::int32_t door = kServer;  // who must answer
  Join join;                    // the proof and the patience are filled in
  std::string_view what;        // "joining the rendezvous": for error texts
  std::chrono::milliseconds refusal_grace{2000};
  net::FramedLink* overseer = nullptr;  // an Error from there ends the wait
  Dialect dialect = Dialect::of_this_build();
};
Result<net::FramedLink> knock(const KnockRequest& request, const net::Patience& patience);

// The Error that has arrived on the link, if one has. A closed link is no error here.
std::optional<Error> error_from(net::FramedLink& overseer);

// "10.0.0.1:4000 or [fd00::1]:4000"
std::string text_of(const Place& place);

}  // namespace rondo::bootstrap
