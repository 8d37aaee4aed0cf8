// SPDX-License-Identifier: Apache-2.0
// RankState: one rank of a communicator, with the parts that run and supervise its calls on host
// memory and, if it is on a GPU, its GpuRank.
//
// Guarantees: one thread at a time is inside its calls (enter(), leave()); end_calls() returns even
// if that thread never runs again. Cost: one flag store each to enter and to leave.
#pragma once

#include <pthread.h>

#include <atomic>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "collectives/context/comm_options.h"
#include "collectives/host/host_engine.h"
#include "collectives/host/one_sided_calls.h"
#include "collectives/rank/rank_context.h"
#include "collectives/watchdog/supervisor.h"
#include "collectives/watchdog/withdrawal.h"
#include "transport/bootstrap/secret.h"
#include "transport/socket/address.h"

namespace rondo {

namespace gpu {
class GpuRank;
}

class RankState : public RankContext {
 public:
  RankState();
  ~RankState();

  CommOptions options;
  std::uint32_t made_in = 0;                  // fork_generation() at init
  std::string network;                        // between its hosts; "": there is one host
  std::vector<net::SocketAddress> addresses;  // this rank's, for ranks of other hosts
  bootstrap::Secret secret;  // shared by its ranks, new for each communicator, never sent
  std::atomic<std::uint64_t> committed_bytes = 0;  // of staging memory

  Supervisor supervisor{*this};
  Withdrawal withdrawal{*this};
  OneSidedCalls one_sided{*this, supervisor, withdrawal};
  HostEngine engine{*this, one_sided};
  std::unique_ptr<gpu::GpuRank> device;  // null for a rank on the host

  // Sets the host view's callbacks to the parts above. The view must have its peers.
  void connect_host_view();

  // Runs calls on the host as one group. No other thread may use the host engine. beside: the
  // program computes at the same time.
  Status run_calls(std::span<const Call> calls, bool beside = false);
  // Called before and after a list of calls. enter() fails after a fault.
  Status enter();
  void leave() { inside_.store(false, std::memory_order_release); }
  bool forked() const;  // true in a forked child
  // For abort() and revoke(): reports to the peers and waits until the call in progress has left.
  void end_calls(const char* what);

 private:
  bool reach_first(int local, std::uint64_t place);
  bool commit(void* at, std::size_t bytes);
  void raise_failed_read(int local, int error);

  std::atomic<bool> inside_{false};
  std::atomic<pthread_t> inside_thread_{};
};

}  // namespace rondo
