// CommunicatorState: all state of a Communicator. It holds the parts that run and supervise a
// rank's calls, and the data for creating it and its children.
#pragma once

#include <pthread.h>

#include <atomic>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "collectives/communicator/communicator.h"
#include "collectives/communicator/rank_context.h"
#include "collectives/host/host_engine.h"
#include "collectives/host/one_sided_calls.h"
#include "collectives/watchdog/supervisor.h"
#include "collectives/watchdog/withdrawal.h"
#include "transport/socket/address.h"

namespace rondo {

namespace gpu {
class GpuRank;
}

class CommunicatorState : public RankContext {
 public:
  CommunicatorState();
  ~CommunicatorState();

  CommOptions options;
  std::uint32_t made_in = 0;  // fork_generation() at init
  std::shared_ptr<bootstrap::Listener> listener;
  std::string network;                        // between its hosts; "": there is one host
  std::vector<net::SocketAddress> addresses;  // this rank's, for ranks of other hosts
  bootstrap::Secret secret;  // shared by its ranks, new for each communicator, never sent
  // Numbers of children so far; a child's secret depends on its number. After a fault, ranks may
  // have counted different numbers of splits, so shrinks are counted per list of survivors.
  std::uint64_t splits = 0;
  std::map<std::vector<int>, std::uint64_t> shrinks;
  std::uint64_t meetings = 0;                      // number of meet_again() calls so far
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
