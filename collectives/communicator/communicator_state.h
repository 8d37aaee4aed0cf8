// CommunicatorState: everything a Communicator keeps, behind its interface: the parts that do a
// rank's calls and look after them, and what its making and its children need.
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
  std::string network;                        // between its hosts; empty: there is one host
  std::vector<net::SocketAddress> addresses;  // where this rank listens for ranks of other hosts
  bootstrap::Secret secret;  // of all its ranks, fresh each time one is made; never travels
  // Which children there were. Ranks that lost track of each other in a fault may have called
  // split differently often: only calls for these very survivors count.
  std::uint64_t splits = 0;
  std::map<std::vector<int>, std::uint64_t> shrinks;
  std::uint64_t meetings = 0;  // of all its ranks on GPUs (collectives/communicator/meet_again.h)
  std::atomic<std::uint64_t> committed_bytes = 0;  // of staging memory

  Supervisor supervisor{*this};
  Withdrawal withdrawal{*this};
  OneSidedCalls one_sided{*this, supervisor, withdrawal};
  HostEngine engine{*this, one_sided};
  std::unique_ptr<gpu::GpuRank> device;  // where the rank lives on a CUDA device, else null

  // Once the host view has its peers: what its executors ask of the parts above.
  void connect_host_view();

  // A list of calls on the host as one group, once nobody else uses the host engine. beside: the
  // program computes meanwhile.
  Status run_calls(std::span<const Call> calls, bool beside = false);
  // Entering and leaving a list of calls.
  Status enter();
  void leave() { inside_.store(false, std::memory_order_release); }
  bool forked() const;  // the handle is the parent's
  // abort() and revoke(): tells the peers, and waits until the call in progress has left.
  void end_calls(const char* what);

 private:
  bool reach_first(int local, std::uint64_t place);
  bool commit(void* at, std::size_t bytes);

  std::atomic<bool> inside_{false};
  std::atomic<pthread_t> inside_thread_{};
};

}  // namespace rondo
