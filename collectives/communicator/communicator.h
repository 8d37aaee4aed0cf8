// Communicator: one rank of a group of ranks, and all that it can be asked to do.
//
// create() blocks until all ranks have joined. run() executes a list of calls (one group) on the
// caller's thread and returns when their bytes and credits have left this rank; run_together() does
// so for several ranks of this process at once, as fibers of one thread. Calls of one communicator
// are made by one thread at a time (the api layer sees to it); abort() may come from any thread.
// Guarantees: no call hangs past its deadline; after a fault every call returns that fault.
// Cost: an uncontended call adds one flag exchange and a plan lookup to its algorithm.
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
#include "collectives/call.h"
#include "collectives/planner/planner.h"
#include "collectives/watchdog/fault.h"
#include "topology/graph/graph.h"
#include "transport/bootstrap/session.h"

namespace rondo {

struct CommOptions {
  double timeout_seconds = 600;      // without progress, until a call fails; RONDO_TIMEOUT
  double init_timeout_seconds = 60;  // RONDO_INIT_TIMEOUT
  bool reproducible = false;         // RONDO_REPRODUCIBLE
  std::string name;                  // for logs
  std::string network;               // between hosts, where one is asked for; NCCL_NET
  int device = -1;                   // the CUDA device that the rank lives on, or -1: the host
  int min_ctas = 1;                  // of a rank, where kernels wait for each other
  int max_ctas = 64;                 // fewer than 64: also where they do not
  bool copy_engines = false;         // calls that only copy are done by cudaMemcpyAsync
  double kernel_seconds = 0;         // without progress, until such a kernel gives up; 0: never
  // From the environment.
  static CommOptions from_environment();
};

struct CreateRequest {
  int rank = 0;
  int size = 1;
  bootstrap::UniqueId id{};
  std::vector<bootstrap::UniqueId> more_ids;   // ncclCommInitRankScalable
  std::shared_ptr<bootstrap::Listener> serve;  // set on a child's leader: it serves `id`
  CommOptions options;
  std::function<bool()> aborted;                 // polled while joining; may be empty
  std::shared_ptr<const topology::Graph> graph;  // of this host, of a child; null: to be found
  // Of a communicator that only serves another one: who hears of its faults, from any thread, and
  // whether the other one goes on. May be empty.
  std::function<void(const Fault&)> on_fault;
  std::function<Status()> standing;
};

class CommunicatorState;  // collectives/communicator/communicator_state.h

class Communicator {
 public:
  static Result<std::shared_ptr<Communicator>> create(const CreateRequest& request);
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  int rank() const;
  int size() const;
  const CommOptions& options() const;
  const bootstrap::Secret& secret() const;  // of this communicator's ranks, to derive others from
  void set_timeout(double seconds);

  // Executes calls in order as one group: collectives first, then all sends and receives at once.
  Status run(std::span<const Call> calls);
  // The same for a single collective, on a thread of the program (no HostStream's).
  Status run_here(const Call& call);

  struct Work {
    Communicator* communicator;
    std::span<const Call> calls;
  };
  // Several communicators (ranks of this process) in one group, on this thread. Returns the first
  // error; every other rank's fault is kept by its communicator.
  static Status run_together(std::span<const Work> works);

  // The same of communicators on CUDA devices: returns when all calls are on their streams. The
  // ranks of a device meet on the host first.
  static Status enqueue_together(std::span<const Work> works);

  // The fault of this communicator, if it has one: its own, one that a peer of this host reported,
  // or a peer's death that stops a call which is now waiting. Cheap enough to be polled.
  std::optional<Fault> fault();

  // Ranks that are known to have ended: those of this host (the kernel is asked now), and a rank of
  // another host that a fault blames for being gone. Ascending. Never waits.
  std::vector<int> ended_ranks();

  // Ends the call that another thread may be blocked in, tells the peers ("rank N aborted"), waits
  // until that thread has left. Afterwards every call returns kInvalidUsage "aborted by ...".
  // Always returns: it waits 10 s at most, and not at all for its own thread.
  void abort();
  // The same, but peers are told "revoked"; shrink() still works on it.
  void revoke();

  // Collective over the communicator: every rank gives bytes of equal length, gets all of them.
  // what: the function of the API that this is for.
  Result<std::vector<std::vector<std::byte>>> exchange(std::string_view what,
                                                       std::span<const std::byte> mine);

  // Children. Collective over the ranks that take part; each returns the child of this rank.
  // color < 0: takes part and gets no child (nullptr).
  Result<std::shared_ptr<Communicator>> split(int color, int key, const CommOptions& options,
                                              std::function<bool()> aborted);
  // Called only by the survivors, who all name the same ranks to leave out; works on a faulted one.
  Result<std::shared_ptr<Communicator>> shrink(std::span<const int> excluded,
                                               const CommOptions& options,
                                               std::function<bool()> aborted);

  // Collective: every rank names memory of its own, of any length, that peers may put into; the
  // number of the window, equal on all ranks. Puts, signals and waits are calls of run().
  // symmetric: of GPUs, collectives may work in place on what lies at the same place of all.
  Result<int> register_window(void* memory, std::size_t bytes, bool symmetric = false);
  // Puts of peers into it are refused from now on, or end them. wait_turn: until no call of this
  // rank runs; asked for where the window is known to a network, which one thread moves.
  void deregister_window(int window, const std::function<void()>& wait_turn = {});
  std::size_t window_bytes(int window, int peer) const;

  // Of this rank alone: memory that is in the registry, for calls that may work on it in place.
  void register_memory(const void* memory, std::size_t bytes);

  struct Choice {
    Algorithm algorithm = Algorithm::kDirect;
    Protocol protocol = Protocol::kStaged;
    std::uint64_t rounds = 0;
  };
  // What the last collective of host memory ran as.
  Choice last_plan() const;
  // What the call would take, by the costs of the planner that will plan it, of its devices or its
  // hosts, in nanoseconds; 0 where that allows nothing.
  double predicted_ns(const CallRecord& record) const;
  // Of data that this rank's host can exchange with others, each way, by the rates of the ports
  // that its network may use; 0: not known, or there is one host.
  double network_gbs() const;

  struct MemoryUse {
    std::uint64_t shared_bytes = 0;     // committed by this rank in shared memory
    std::uint64_t private_bytes = 0;    // the rest, roughly
    std::uint64_t pinned_bytes = 0;     // by which GPUs reach other hosts, or ranks out of reach
    std::uint64_t device_bytes = 0;     // of its GPU
    std::uint64_t droppable_bytes = 0;  // of that, what suspend() gives back
    std::uint64_t total() const {
      return shared_bytes + private_bytes + pinned_bytes + device_bytes;
    }
  };
  MemoryUse memory() const;
  // Device memory that is not the program's goes, and comes back at the same addresses. By all
  // ranks, after their calls; kOutOfMemory of resume(): it may be tried again.
  Status suspend();
  Status resume();

  // One line a rank: sequence, call, step, whom it waits for; for diagnosis while a rank waits.
  std::string describe_ranks() const;

 private:
  friend class TaggedMessages;  // which drives a communicator of its own in another way
  explicit Communicator(std::unique_ptr<CommunicatorState> state);
  std::unique_ptr<CommunicatorState> state_;
};

}  // namespace rondo
