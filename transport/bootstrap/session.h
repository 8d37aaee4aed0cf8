// SPDX-License-Identifier: Apache-2.0
// Session: all ranks of a new communicator, connected and able to exchange bytes.
//
// join() proves to the rendezvous that this rank holds the id (challenge and response; the secret
// never travels), waits for all ranks and connects them to a tree. After that no server is needed.
// Guarantees: join() and all_gather() end by the deadline or within 50 ms of `aborted` becoming
// true. Errors name the rank at fault, and every rank gets the error. After an error all later
// calls return it. Bytes travel as encrypted records (auth/records.h). One thread at a time uses
// it.
// Survivors: a meeting that fails ends for all its ranks at once, and the next one at the same id
// begins when its rank 0 comes again; so ranks meet whatever their number of tries.
// Cost: two handshakes per rank. all_gather takes 2 ceil(log8 n) hops, and no rank moves more than
// 9 times the total bytes. No thread except the server's, which ends when all ranks are connected.
//
//   RONDO_TRY(auto session, Session::join({.rank = 3, .size = 8, .id = id, .timeout = 60s}));
//   RONDO_TRY(auto records, session->all_gather(my_record));
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "transport/bootstrap/framed_link.h"
#include "transport/bootstrap/join_request.h"
#include "transport/bootstrap/secret.h"
#include "transport/bootstrap/unique_id.h"

namespace rondo::bootstrap {

class SessionState;  // transport/bootstrap/session_state.h

class Session {
 public:
  static Result<std::unique_ptr<Session>> join(const JoinRequest& request);
  // For the leader of a child: serves request.id, made from the listener's address, and joins it.
  static Result<std::unique_ptr<Session>> serve_and_join(const Listener& listener,
                                                         const JoinRequest& request);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  int rank() const;
  int size() const;
  const Secret& secret() const;  // proved by all its ranks
  // The addresses of the rendezvous. Empty with one rank.
  const std::vector<net::SocketAddress>& rendezvous_at() const;

  // Every rank contributes bytes (sizes may differ; at most 64 MiB in total) and receives all of
  // them, in rank order. Ranks must call in the same order.
  Result<std::vector<std::vector<std::byte>>> all_gather(std::span<const std::byte> mine);

  LinkTraffic traffic() const;  // on its links in the tree, since join()

  void set_timeout(std::chrono::nanoseconds timeout);  // for later exchanges

  // Call between two exchanges that every rank takes part in. Returns the error of the next one if
  // a neighbour has already sent an error or has left. Never waits.
  Status standing();
  // Reports to the other ranks that this rank cannot continue, and why. Returns the error for this
  // rank's caller: `mine`, or an earlier error.
  Error give_up(const Error& mine);

 private:
  explicit Session(std::unique_ptr<SessionState> state);
  std::unique_ptr<SessionState> state_;
};

}  // namespace rondo::bootstrap
