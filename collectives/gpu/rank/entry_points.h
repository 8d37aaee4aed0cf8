// SPDX-License-Identifier: Apache-2.0
// What the communicator and the API need of ranks on CUDA devices, besides gpu_rank.h. A build
// without CUDA has absent.cc in place of it.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "collectives/context/call.h"
#include "collectives/context/init_record.h"
#include "collectives/host/rank_state.h"
#include "collectives/tuner/tuner_plugin.h"
#include "transport/bootstrap/session.h"
#include "transport/shm/unix_socket.h"

namespace rondo::gpu {

// Chooses what executes the calls of a communicator's ranks on CUDA devices, while it is created.
// All ranks exchange their facts and make the same plan (gpu_plan.h).
//
// Collective. Guarantees: all ranks see the same records, so all or none of them refuse; every wait
// ends with the deadline; ranks on the host need nothing. Cost: two rounds of the session, some
// more with kernels between hosts, and what is made.
struct BindingRequest {
  RankState& state;  // has its ranks, facts and options
  bootstrap::Session& session;
  const std::vector<InitRecord>& records;  // by rank
  const shm::UnixListener& listener;       // this rank's
  net::Deadline deadline;
  bool is_child;  // its parent has warned of what concerns both
};
Status bind_to_device(const BindingRequest& request);

// The ranks ask their tuner plugin, once, and compare its answers. Returns why all ranks are
// refused, which each finds by itself; "": they agree. An error is only this rank's.
//
// Collective, after all ranks are bound. Guarantees: all ranks plan by the same answers from then
// on, or all are refused, with the first call on which two ranks' plugins differ. So a plugin whose
// answers change from call to call cannot make two ranks choose differently. Cost: that of
// ask_tuner(), and an exchange of 8 bytes per rank, of some hundred more if answers differ.
Result<std::string> agree_on_tuning(RankState& state, bootstrap::Session& session,
                                    const tuner::TunerPlugin& plugin);

// The calls of one rank in a group, in its caller's memory. enqueue_together() replaces their
// addresses by those of the rank's device, and may change their order.
struct RankWork {
  RankState* state;
  std::span<Call> calls;
  // For enqueue_together(): puts, signals and waits, which it takes out of `calls`; how many of
  // `calls` are collectives, which come first if there are several rounds.
  std::span<Call> one_sided = {};
  std::size_t collectives = 0;
};
// Enqueues groups of calls: checks addresses, posts every rank's calls, then waits on the host
// until they are on their streams.
//
// Guarantees: everything is checked before anything is posted; a thread with several ranks posts
// for all before it waits for any; puts and signals follow all collectives and messages. Cost: see
// device_rank.h.
Status enqueue_together(std::span<RankWork> works);

}  // namespace rondo::gpu
