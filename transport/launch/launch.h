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
#include <string>

#include "base/bytes.h"
#include "base/result.h"
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

// read_launcher(): which rank of which job this process is, by its launcher's environment
// variables.
//
// One table serves everything that asks: rondoLaunchRead (launch_env.h, `rondo bench`,
// rondo.torch). Knows rondo run and torchrun (RANK), Open MPI (OMPI_COMM_WORLD_*), MPICH and its
// descendants (PMI_*) and Slurm's steps (SLURM_*). The first launcher whose rank and size are set
// counts; numbers that it lacks come from a later one that agrees about rank and size. A process
// that no launcher started is rank 0 of 1; so is a batch script of Slurm, which is in no step.
struct Launched {
  int rank = 0;
  int size = 1;
  int local_rank = -1;      // on this host; -1: unknown
  int local_size = -1;      // ranks on this host; -1: unknown
  const char* source = "";  // the variable with the rank; "": no launcher. Static
};

// Fails if the variables contradict each other.
Result<Launched> read_launcher();

// Where ranks of several hosts connect to rank 0.
struct Master {
  std::string host;  // "": unknown
  std::uint16_t port = 0;
};

// MASTER_ADDR and MASTER_PORT. What is not set comes from Slurm in a step: the first host of the
// step, and a port from 20000 to 29999 by the numbers of job and step. Fails if MASTER_PORT is no
// port.
Result<Master> master_of_job();

// What all ranks of this job share and other jobs do not. Not secret.
Bytes name_of_job();

}  // namespace rondo::launch
