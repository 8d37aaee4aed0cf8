// SPDX-License-Identifier: Apache-2.0
// meet_launched(): connects the ranks that a launcher started, without MPI and without an id.
//
// On one host rank 0 makes an id and shows it to processes of its user (id_board.h). Otherwise the
// ranks meet at MASTER_ADDR:MASTER_PORT (the next port if torchrun's own store uses that one),
// under a secret made of the launcher's variables. Strangers can compute that secret: RONDO_SECRET
// keeps them out; without it a WARN is logged.
// Guarantees: those of the returned bootstrap::Session: every rank is counted once, visitors are
// served concurrently, all waits end by the deadline, errors name the missing ranks.
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
  int local_size = -1;      // ranks on this host; -1: unknown
  std::uint32_t round = 0;  // number of the meeting in this launch, equal on all ranks
};

Result<std::unique_ptr<bootstrap::Session>> meet_launched(const Seat& seat,
                                                          std::chrono::nanoseconds timeout);

// True if all ranks are on this host according to the launcher.
bool on_one_host(const Seat& seat);

}  // namespace rondo::launch
