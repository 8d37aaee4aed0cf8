// connect(): a proven connection to a rank or to the rendezvous.
//
// Tries all addresses, the first one with a head start, and keeps the connection whose other end
// first proves that it holds the secret and is the endpoint that was meant; an address that means
// another machine here only fails its proof. Guarantees: ends by the deadline or abort, or when
// nobody has listened at any address for `refusal_grace`; comes again otherwise, also where it was
// dropped because others wait or because nobody knows the secret there yet.
//
//   RONDO_TRY(FramedLink link, connect({.place = table.parent, .endpoint = ..., ...}, deadline));
#pragma once

#include <chrono>

#include "transport/auth/handshake.h"
#include "transport/bootstrap/framed_link.h"
#include "transport/bootstrap/messages.h"

namespace rondo::bootstrap {

struct ConnectRequest {
  const Endpoint& place;
  const auth::Key& key;
  std::string endpoint;     // who must answer
  Join join{};              // the deadline is filled in
  std::string_view what{};  // "joining the rendezvous": for error texts
  std::chrono::milliseconds refusal_grace{2000};
  FramedLink* overseer = nullptr;  // an Error from there ends the wait
  auth::Build build{};
};
Result<FramedLink> connect(const ConnectRequest& request, const net::Deadline& deadline);

// The names by which ranks mean each other in the handshake.
inline constexpr std::string_view kRendezvous = "bootstrap rendezvous";
std::string endpoint_of(int rank);  // where it awaits its children of the tree

// The Error that has arrived on the link, if one has. A closed link is no error here.
std::optional<Error> error_from(FramedLink& overseer);

// "10.0.0.1:4000 or [fd00::1]:4000"
std::string text_of(const Endpoint& place);

}  // namespace rondo::bootstrap
