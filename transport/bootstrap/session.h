// Session: all ranks of a new communicator, connected and able to exchange bytes.
//
// join() proves to the rendezvous that this rank holds the id (challenge and response; the secret
// never travels), waits for all ranks and connects them to a tree; after that no server is needed.
// Guarantees: join() and all_gather() end by the deadline or within 50 ms of `aborted` becoming
// true; errors name the rank at fault, and every rank gets the error. After an error the session
// stays at it. Bytes travel as encrypted records (auth/records.h). One thread at a time uses it.
// Cost: two handshakes a rank; all_gather takes 2 ceil(log8 n) hops, and no rank moves more than 9
// times all bytes. No thread but the server's, which ends when all ranks are connected.
//
//   RONDO_TRY(auto session, Session::join({.rank = 3, .size = 8, .id = id, .timeout = 60s}));
//   RONDO_TRY(auto records, session->all_gather(my_record));
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "transport/bootstrap/framed_link.h"
#include "transport/bootstrap/listener.h"
#include "transport/bootstrap/secret.h"
#include "transport/bootstrap/unique_id.h"

namespace rondo::bootstrap {

struct JoinRequest {
  int rank = 0;
  int size = 1;
  UniqueId id{};                                                // not read where size is 1
  std::chrono::nanoseconds timeout = std::chrono::seconds(60);  // of join() and of each all_gather
  std::function<bool()> aborted{};                              // polled every 50 ms; may be empty
  std::vector<UniqueId> more_ids{};  // further roots: accepted, not needed
};

class SessionState;  // transport/bootstrap/session_state.h

class Session {
 public:
  static Result<std::unique_ptr<Session>> join(const JoinRequest& request);
  // The leader of a child: serves request.id, which is one of the listener's, and joins it.
  static Result<std::unique_ptr<Session>> serve_and_join(const Listener& listener,
                                                         const JoinRequest& request);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  int rank() const;
  int size() const;
  const Secret& secret() const;  // that all its ranks have proved to hold
  // Where they met: the addresses of the rendezvous. None where there is one rank.
  const std::vector<net::SocketAddress>& met_at() const;

  // Every rank gives bytes (sizes may differ; 64 MiB all together), every rank gets all of them,
  // in rank order. The rounds match by order.
  Result<std::vector<std::vector<std::byte>>> all_gather(std::span<const std::byte> mine);

  LinkTraffic traffic() const;  // of its links in the tree, since it joined

  void set_timeout(std::chrono::nanoseconds timeout);  // of the exchanges from now on

  // Between two exchanges, which every rank takes part in: the error that the next one would bring,
  // as far as a neighbour has already told it or has left. Never waits.
  Status standing();
  // Tells the other ranks that this one cannot go on and why. Returns what this rank's caller
  // should learn: `mine`, or the error that came before it.
  Error give_up(const Error& mine);

 private:
  explicit Session(std::unique_ptr<SessionState> state);
  std::unique_ptr<SessionState> state_;
};

}  // namespace rondo::bootstrap
