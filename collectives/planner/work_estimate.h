// WorkEstimate: the HostWork of one plan while it is added up, in the words of the texts.
#pragma once

#include "collectives/planner/host_work.h"
#include "collectives/planner/tuning.h"

namespace rondo {

struct WorkEstimate {
  WorkEstimate(const PlanFacts& facts, const CallRecord& call, const Plan& plan);

  const PlanFacts& facts;
  const Plan& plan;
  const double ranks, hosts, local;  // local: ranks of the largest host
  const double rails;
  const double share;   // ranks that a core serves
  const double rounds;  // at least one
  const double bytes;   // of the call's count: a block's, where there are blocks
  const double chunk;   // bytes of a round
  const bool exposed;   // peers are sure to use the callers' buffers in place
  HostWork work;

  // So often, a rank waits for all others of its host.
  void meet(double times) {
    work[HostRate::kMeet] += times;
    work[HostRate::kPeer] += times * (local - 1) * share;
    wait(times);
  }
  // The root reads what the others have announced, or they read what the root has. The rank whose
  // data are read goes on, and waits once it is `ahead` calls or rounds ahead.
  void follow(double peers, double rounds, double ahead) {
    work[HostRate::kPeer] += peers * rounds;
    wait(rounds / ahead);
  }
  // Waits for somebody who may have to get the core first.
  void wait(double times) {
    if (share > 1) work[HostRate::kSwitch] += times * share;
  }
  // Bytes that every rank copies, or adds.
  void copy(double each) { work[HostRate::kCopy] += each * share; }
  void sum(double each) { work[HostRate::kSum] += each * share; }
  // Bytes of one rank while the others wait, or do less beside it: what all do takes the cores.
  void copy_of_one(double one, double all);
  void sum_of_one(double one, double all);

  // Chunks that follow each other on the way of the slowest, `crossing` of them between hosts.
  void hand_on(double steps, double crossing);
  // Bytes that leave a host.
  void leave(double out) {
    if (hosts > 1) work[HostRate::kLinkByte] += out * (share > 1 ? share : 1);
  }
  double crossing_of_ring() const { return hosts > 1 ? hosts / ranks : 0; }

  // The buffers of a rank, as far as those of a host do not fit into the shared cache.
  void add_memory(double each);
};

// Rounded up; 0 for one.
double log2_of(double ranks);

// By the algorithm of the plan, over peers' memory, over connections, or both (hosts > 1).
void add_direct_work(WorkEstimate& estimate, Algorithm algorithm, Collective collective);
void add_connected_work(WorkEstimate& estimate, Algorithm algorithm, Collective collective);
void add_hierarchical_work(WorkEstimate& estimate, Collective collective);

}  // namespace rondo
