// SPDX-License-Identifier: Apache-2.0
// The work of a plan for a rank in host memory: waits for peers, chunks sent, bytes copied and
// summed, bytes between hosts. Its time is work.ns(costs).
//
// This is the work of the busiest rank in consecutive calls. If ranks share cores, a core does the
// work of all its ranks, and every meeting is a switch to each of them. Guarantees: a pure function
// of what all ranks agreed on; only + - * /. Cost: some tens of operations.
#pragma once

#include <limits>

#include "collectives/planner/host_plan.h"
#include "collectives/planner/tuning.h"

namespace rondo {

// Adds up a plan's work in units of the algorithms' operations: meet, copy, sum, send.
struct WorkEstimate {
  WorkEstimate(const PlanFacts& facts, const CallRecord& call, const Plan& plan);

  const PlanFacts& facts;
  const Plan& plan;
  const double ranks, hosts, local;  // local: ranks of the largest host
  const double rails;
  const double share;   // ranks per core
  const double rounds;  // at least one
  const double bytes;   // of the call's count; of one block if there are blocks
  const double chunk;   // bytes of a round
  const bool reads;     // peers read private memory
  const bool exposed;   // peers always use the callers' buffers in place, or read them
  HostWork work;

  // A rank waits `times` times for all others of its host.
  void meet(double times) {
    work[HostRate::kMeet] += times;
    work[HostRate::kPeer] += times * (local - 1) * share;
    wait(times);
  }
  // The root reads the others' announcements, or they read the root's. The rank whose data is read
  // continues, and waits only when it is `ahead` calls or rounds ahead.
  void follow(double peers, double rounds, double ahead) {
    work[HostRate::kPeer] += peers * rounds;
    wait(rounds / ahead);
  }
  // Waits for a rank that may first need the core.
  void wait(double times) {
    if (share > 1) work[HostRate::kSwitch] += times * share;
  }
  // Bytes that every rank copies, or sums.
  void copy(double each) { work[HostRate::kCopy] += each * share; }
  void sum(double each) { work[HostRate::kSum] += each * share; }
  // Bytes of one rank while the others wait or do less. The cores need the time of all bytes.
  void copy_of_one(double one, double all);
  void sum_of_one(double one, double all);

  // Bytes that every rank reads from private memory of peers, in `pieces` reads.
  void read(double pieces, double each) {
    work[HostRate::kRead] += pieces * share;
    work[HostRate::kReadByte] += each * share;
  }
  // The same where one rank reads or is read, while the others wait or do less.
  void read_of_one(double pieces, double one, double all);

  // Consecutive chunks on the slowest path; the share `crossing` of them goes between hosts.
  void hand_on(double steps, double crossing);
  // Bytes that leave a host.
  void leave(double out) {
    if (hosts > 1) work[HostRate::kLinkByte] += out * (share > 1 ? share : 1);
  }
  double crossing_of_ring() const { return hosts > 1 ? hosts / ranks : 0; }

  // The plan does not run here: its algorithm has no function among those below.
  void never() { work[HostRate::kCall] = std::numeric_limits<double>::infinity(); }

  // Adds the part of a rank's buffers that does not fit in the host's shared cache.
  void add_memory(double each);
};

// Rounded up; 0 for one.
double log2_of(double ranks);

// Add the work of the plan: of one rank, of messages, or of its algorithm: over peers' memory, over
// connections, or both (hosts > 1).
void add_copy_work(WorkEstimate& estimate, Collective collective);
void add_message_work(WorkEstimate& estimate, Collective collective);
void add_direct_work(WorkEstimate& estimate, Collective collective);
void add_connected_work(WorkEstimate& estimate, Collective collective);
void add_hierarchical_work(WorkEstimate& estimate, Collective collective);

// The work of a plan by one of these.
using AddWork = void (*)(WorkEstimate& estimate, Collective collective);
HostWork host_work(const PlanFacts& facts, const CallRecord& record, const Plan& plan, AddWork add);

}  // namespace rondo
