// SPDX-License-Identifier: Apache-2.0
// Communicator: one rank of a group of ranks that run collectives, messages and one-sided calls.
//
// create() blocks until all ranks have joined. run() executes a list of calls (one group) on the
// caller's thread and returns when their bytes and credits have left this rank. run_together() does
// the same for several ranks of this process at once, as fibers of one thread. Only one thread at a
// time makes calls of a communicator (the api layer ensures it); abort() may be called from any
// thread. Guarantees: no call hangs past its deadline; after a fault every call returns that fault.
// Cost: in addition to its algorithm, an uncontended call costs one flag store and a plan look-up.
//
//   RONDO_TRY(auto comm, Communicator::create(request));
//   RONDO_CHECK_OK(comm->run({&call, 1}));
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "collectives/context/call.h"
#include "collectives/context/comm_options.h"
#include "collectives/faults/fault.h"
#include "collectives/planner/planner.h"
#include "kernels/host/sharing.h"
#include "transport/bootstrap/session.h"

namespace rondo {

namespace profiler {
class Profiler;
}

class CommunicatorState;  // collectives/communicator/communicator_state.h

namespace gpu {
class GpuRank;
}

class Communicator {
 public:
  static Result<std::shared_ptr<Communicator>> create(const CreateRequest& request);
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  int rank() const;
  int size() const;
  const CommOptions& options() const;
  const bootstrap::Secret& secret() const;  // shared by its ranks; others are derived from it
  void set_timeout(double seconds);

  // Executes calls in order as one group: collectives first, then all sends and receives at once.
  Status run(std::span<const Call> calls);
  // The same for a single collective. Only on a thread of the program, not on a HostStream's.
  Status run_here(const Call& call);

  struct Work {
    Communicator* communicator;
    std::span<Call> calls;
  };
  // Runs several communicators (ranks of this process) in one group, on this thread. Returns the
  // first error; each communicator keeps its own fault.
  static Status run_together(std::span<const Work> works);

  // The same for communicators on CUDA devices: returns when all calls are on their streams, with
  // the addresses of the devices. The ranks of a device synchronise on the host first.
  static Status enqueue_together(std::span<const Work> works);

  // The fault of this communicator, if any: its own, one that a peer on this host reported, or the
  // death of a peer for which a call is waiting now. Cheap enough for polling.
  std::optional<Fault> fault();

  // Ranks that are known to have ended, ascending. On this host, it asks the kernel now. Of other
  // hosts, only a rank that the fault names as gone, and those that a shrink has missed. Never
  // waits.
  std::vector<int> ended_ranks();

  // Ends a call that blocks another thread, reports "rank N aborted" to the peers, and waits until
  // that thread has left. Afterwards every call returns kInvalidUsage "aborted by ...". Always
  // returns: it waits at most 10 s, and not at all if its own thread is inside the call.
  void abort();
  // The same, but reports "revoked"; shrink() works afterwards.
  void revoke();

  // Collective. Every rank gives the same number of bytes and receives those of all ranks, by rank.
  // what: the API function that calls this.
  Result<std::vector<std::vector<std::byte>>> exchange(std::string_view what,
                                                       std::span<const std::byte> mine);

  // Children. Collective over all ranks; returns this rank's child. color < 0: the rank takes part
  // but gets no child (nullptr).
  Result<std::shared_ptr<Communicator>> split(int color, int key, const CommOptions& options,
                                              std::function<bool()> aborted);
  // Called only by the survivors, with the same excluded ranks. Works after a fault. Survivors meet
  // whatever their numbers of tries: a try ends for all who came, with the same error, at the first
  // one's init timeout, or as soon as a survivor has ended or has named other ranks.
  Result<std::shared_ptr<Communicator>> shrink(std::span<const int> excluded,
                                               const CommOptions& options,
                                               std::function<bool()> aborted);

  // Collective. Every rank gives its own memory, of any length, into which peers may put. Returns
  // the number of the window, equal on all ranks. Puts, signals and waits are calls of run().
  // symmetric (GPUs): collectives may access buffers at the same offset of all windows in place.
  Result<int> register_window(void* memory, std::size_t bytes, bool symmetric = false);
  // From now on, puts of peers into the window fail. wait_turn waits until no call of this rank
  // runs. It is called if a network has registered the window, because only one thread may drive
  // it.
  void deregister_window(int window, const std::function<void()>& wait_turn = {});
  std::size_t window_bytes(int window, int peer) const;

  // What a profiler plugin sees of this rank; null: there is no plugin.
  std::shared_ptr<profiler::Profiler> profiler() const;

  // How the last collective on host memory ran.
  LastPlan last_plan() const;
  // Predicted time of the call in nanoseconds, by the cost model of its planner (GPU or host); 0 if
  // no algorithm is allowed.
  double predicted_ns(const CallRecord& record) const;
  // Rate in GB/s, each way, at which this rank's host can exchange data with other hosts: from the
  // rates of the ports that its network may use. 0: unknown, or there is one host.
  double network_gbs() const;

  struct MemoryUse {
    std::uint64_t shared_bytes = 0;     // committed by this rank in shared memory
    std::uint64_t private_bytes = 0;    // other host memory, estimated
    std::uint64_t pinned_bytes = 0;     // for GPU data to other hosts or unreachable GPUs
    std::uint64_t device_bytes = 0;     // on its GPU
    std::uint64_t droppable_bytes = 0;  // part of device_bytes that suspend() frees
    std::uint64_t total() const {
      return shared_bytes + private_bytes + pinned_bytes + device_bytes;
    }
  };
  MemoryUse memory() const;
  // suspend() frees Rondo's own device memory; resume() allocates it again at the same addresses.
  // Called by all ranks, after their calls. A resume() that lacked memory may be called again.
  Status suspend();
  Status resume();

  // One line per rank for diagnosis: sequence number, call, step, and the rank it waits for.
  std::string describe_ranks() const;

 private:
  friend class TaggedMessages;  // drives its own communicator without run()
  friend void set_pool(Communicator& communicator, host::ParallelFor pool);
  friend int reach_team_of(const Communicator& communicator);
  friend gpu::GpuRank* gpu_rank_of(const Communicator& communicator);
  friend Result<std::shared_ptr<Communicator>> duplicate(Communicator& parent,
                                                         std::function<bool()> aborted);
  explicit Communicator(std::unique_ptr<CommunicatorState> state);
  std::unique_ptr<CommunicatorState> state_;
};

// Calls of this thread share their copies and sums by the program's pool, others use one thread.
// Null: all use one. While no call runs.
void set_pool(Communicator& communicator, host::ParallelFor pool);

// Number of ranks of a team whose ranks load and store each other's memory (reach_team.h in
// collectives/context), equal on all ranks. GPUs: by P2P or NVLink; host memory: of one process.
int reach_team_of(const Communicator& communicator);

// The rank on a CUDA device (gpu_rank.h), for NCCL's device API; null: it is on the host.
gpu::GpuRank* gpu_rank_of(const Communicator& communicator);

// Collective. An internal child of all ranks, in their order. Makes no call of the parent.
Result<std::shared_ptr<Communicator>> duplicate(Communicator& parent,
                                                std::function<bool()> aborted);

}  // namespace rondo
