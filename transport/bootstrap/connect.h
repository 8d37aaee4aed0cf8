// SPDX-License-Identifier: Apache-2.0
// connect(): a proven connection to a rank or to the rendezvous.
//
// Tries all addresses in parallel; the first one gets a head start. Keeps the first connection
// whose other end proves that it holds the secret and is the intended endpoint. An address that
// belongs to another machine here only fails its proof. Guarantees: ends by the deadline or abort,
// when no process has listened at any address for `refusal_grace`, or 2 s after an answer with
// another secret. Otherwise it connects again, also after the acceptor dropped it for other
// visitors or because the secret is not known there yet.
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
  std::string endpoint;     // name of the process that must answer
  Join join{};              // connect() sets timeout_ns
  std::string_view what{};  // "joining the rendezvous": for error texts
  std::chrono::milliseconds refusal_grace{2000};
  FramedLink* overseer = nullptr;  // an Error on this link ends the wait
  auth::Build build{};
};
Result<FramedLink> connect(const ConnectRequest& request, const net::Deadline& deadline);

// Endpoint names in the handshake.
inline constexpr std::string_view kRendezvous = "bootstrap rendezvous";
std::string endpoint_of(int rank);  // for its children in the tree

// The Error that has arrived on the link, if one has. A closed link is no error here.
std::optional<Error> error_from(FramedLink& overseer);

// "10.0.0.1:4000 or [fd00::1]:4000"
std::string text_of(const Endpoint& place);

}  // namespace rondo::bootstrap
