// SPDX-License-Identifier: Apache-2.0
// InjectedFault: a fault of one rank of a job, what rondo ps should say of it, and how often and
// how soon it did.
#pragma once

#include <fmt/format.h>

#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "collectives/status/diagnosis.h"
#include "tests/support/processes.h"
#include "tests/watch/simulated_nccl.h"

namespace rondo::test {

enum Injected {
  kStaysOutside,  // makes no further call
  kIsStopped,     // SIGSTOP
  kIsKilled,      // SIGKILL
  kIsHeld,        // its thread hangs where it is
  kLeaves,        // destroys its communicator
  kDiffers,       // makes another call
  kBlocksStream,  // its kernel does not begin
  kOrders,        // enters two communicators in another order
  kKeepsMessage,  // does not send what the next one receives
  kSkipsAll,      // does not come to an exchange of messages between all ranks
  kSkipsNext,     // does not come to one between neighbours, whose ends have ended their part
  kHostFreezes,   // all processes of its host are stopped
  kInjections
};
const char* name_of(Injected what);

struct InjectedFault {
  Injected what = kStaysOutside;
  int ranks = 4, culprit = 0;
  int calls = 3;  // before the fault
  int ahead = 0;  // how far hosts run ahead of their GPUs
  std::size_t count = 100;
  int version = 6;
  bool network = false;
  int hosts = 1;

  bool is_sent() const {
    return what == kIsStopped || what == kIsKilled || what == kIsHeld || what == kHostFreezes;
  }
  std::string text() const;
  std::vector<Blame::Kind> expected() const;
  bool names(const Blame& blame) const;
};
// Not of kHostFreezes, which needs several hosts.
InjectedFault random_fault(std::mt19937& random);

// A busy machine makes any rank late for a while. Another kind of blame is no accident.
bool is_only_slow(const std::vector<Blame>& blamed);

// By SIGUSR1 of a rank that is to be held.
void hold_thread(int);
void inject(RankProcesses& ranks, const InjectedFault& fault);

// The two communicators of a job of simulated NCCL.
struct Comms {
  std::shared_ptr<SimulatedComm> first = make_simulated_comm(), second = make_simulated_comm();
};
SimulatedRank::Options options_of(const RankSeat& seat, const InjectedFault& fault);
// Calls without end, until the fault. is_faulty: of call number 0, 1, ... of this rank; from the
// same one on it must be true on all ranks.
void make_calls(RankSeat& seat, const InjectedFault& fault, const Comms& comms,
                const std::function<bool(int call)>& is_faulty);

// Of each kind: how many were injected, and after how many seconds each was named.
struct Tally {
  int injected = 0;
  std::vector<double> named_after;
  std::vector<std::string> wrong{};  // what another rank was named for, before or instead
};
using Tallies = std::map<Injected, Tally>;
// Of at least 100 faults 99 % must have been named within 3 s, and no other rank.
void print_and_expect(Tallies& tallies);

}  // namespace rondo::test
