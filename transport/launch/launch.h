// meet_launched(): the ranks that a launcher started meet, without MPI and before they have an id.
//
// On one host rank 0 makes an id and shows it to processes of its user (id_board.h); otherwise the
// ranks meet at MASTER_ADDR:MASTER_PORT (the next port where torchrun's own store has that one),
// under a secret made of the launcher's variables. Strangers can compute that one: RONDO_SECRET
// keeps them out, and where it is missing a WARN says so.
// Guarantees: as bootstrap::Session, which it gives: every rank is counted once, visitors are heard
// side by side, all waits end by the deadline, errors name who is missing.
//
//   RONDO_TRY(auto session, meet_launched({.rank = 1, .size = 4}, 60s));
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>

#include "transport/bootstrap/session.h"

namespace rondo::launch {

struct Seat {
  int rank = 0;
  int size = 1;
  int local_size = -1;      // ranks of this host; -1: the launcher does not say
  std::uint32_t round = 0;  // of this launch's meetings, equal on all ranks
};

Result<std::unique_ptr<bootstrap::Session>> meet_launched(const Seat& seat,
                                                          std::chrono::nanoseconds timeout);

// All ranks are on this host as far as the launcher says.
bool on_one_host(const Seat& seat);

}  // namespace rondo::launch
