// CommunicatorState: everything a Communicator keeps, behind its interface.
#pragma once

#include <poll.h>
#include <pthread.h>

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "base/guard.h"
#include "collectives/communicator/communicator.h"
#include "collectives/communicator/host_shape.h"
#include "collectives/communicator/init_record.h"
#include "collectives/gpu/device_team.h"
#include "collectives/host/connections.h"
#include "collectives/host/one_sided.h"
#include "collectives/planner/planner.h"
#include "collectives/watchdog/rank_report.h"
#include "kernels/host/host_rank.h"
#include "kernels/host/point_to_point.h"
#include "kernels/host/segments.h"
#include "kernels/host/slot_primitives.h"
#include "transport/net/remote_links.h"
#include "transport/shm/host_group.h"

namespace rondo {

namespace gpu {
class DeviceWindows;
class HostedRank;
}  // namespace gpu

class CommunicatorState {
 public:
  CommunicatorState() = default;
  CommunicatorState(const CommunicatorState&) = delete;
  CommunicatorState& operator=(const CommunicatorState&) = delete;

  int rank = 0, size = 1;
  CommOptions options;
  std::function<void(const Fault&)> on_fault;  // CreateRequest's
  std::function<Done()> served_standing;
  std::uint32_t made_in = 0;  // fork_generation() at init

  std::vector<RankFacts> ranks;
  std::vector<int> local_ranks;  // ranks of this host, ascending; indexes the host view
  std::shared_ptr<shm::HostGroup> group;
  std::shared_ptr<bootstrap::Listener> listener;
  bootstrap::Secret secret;  // of all its ranks, fresh each time one is made; never travels
  // Which children there were. Ranks that lost track of each other in a fault may have called
  // split differently often: only calls for these very survivors count.
  std::uint64_t splits = 0;
  std::map<std::vector<int>, std::uint64_t> shrinks;

  host::HostRank host;
  std::unique_ptr<Connections> connections;
  std::unique_ptr<RemoteLinks> links;     // where some ranks are on other hosts, else null
  HostShape shape;                        // its ranks are in ring order
  std::shared_ptr<gpu::DeviceTeam> team;  // where ranks live on CUDA devices, else null
  int idle_turns = 0;
  std::int64_t remote_error_since = -1;  // waited_ns when this wait first saw one
  // What ranks of other hosts have told; made by the first wait that lasts.
  struct Elsewhere {
    struct Rank {
      bool heard = false, asked = false;
      // In that wait of its, for this rank, nothing was on its way to it, since this rank is in
      // that collective.
      std::uint32_t quiet_waits = 0;
      std::uint64_t quiet_sequence = 0;
      std::int64_t heard_ns = 0;
      int teller = -1;           // whose report it was,
      std::uint64_t number = 0;  // and which of its reports
      RankReport report;
    };
    std::vector<Rank> known;  // by rank
    bool news = false;
    std::uint64_t told = 0;                // reports by this rank
    std::vector<std::uint32_t> waits_now;  // of this host's ranks, for a report
  };
  std::unique_ptr<Elsewhere> elsewhere;
  std::int64_t next_question_ns = 0;    // waited_ns from which on this wait asks again
  std::vector<std::byte> scratch;       // a slot, for PreMulSum along connections
  std::vector<host::Message> messages;  // of the group in progress
  std::unique_ptr<OneSided> rma;        // once a window was registered or a signal used
  std::vector<host::Segment> segments;  // of the fused call in progress
  PlanFacts facts;
  Communicator::Choice last_plan;
  CallRecord planned_for;  // the newest call that was planned: programs repeat their calls
  Plan plan;
  std::uint64_t committed_bytes = 0;

  // The call in progress.
  std::atomic<bool> inside{false};
  std::atomic<pthread_t> inside_thread{};
  CallRecord current;
  std::int64_t waited_ns = 0;  // in this wait, counting only time in which the waiter ran
  std::int64_t last_check_ns = 0;
  std::int64_t last_parting_check_ns = 0;
  // Local ranks that had ended or left by the check before, in this wait.
  std::vector<std::uint8_t> seen_parted;
  std::vector<pollfd> pidfds;  // one a local process
  int waiting_parts = 1;       // of the call, which run at once
  struct CircleMember {
    int rank, waiting_for;
    std::uint32_t waits, checks, quiet;
    bool crosses;  // waits for a rank of another host
    CallRecord call;
  };
  std::vector<CircleMember> circle, circle_now;  // ranks seen waiting for each other
  struct Outsider {
    std::uint32_t waits = 0, checks = 0;  // as first seen
    std::uint64_t sequence = 0;           // in this rank's call of that number
  };
  std::vector<Outsider> outsiders;  // by rank: waits for this one in a message, outside its call

  // abort() and revoke() from other threads.
  std::atomic<int> ended{0};  // kRunning, kAborted, kRevoked
  static constexpr int kRunning = 0, kAborted = 1, kRevoked = 2;

  mutable std::mutex fault_mutex;
  std::optional<Fault> fault;
  std::atomic<bool> faulted{false};

  std::atomic<double> timeout_seconds{600};

  int local_of(int global) const;             // -1 where it is on another host
  int global_of(const WaitSite& site) const;  // whom a wait is for, or -1
  int peer_of(const WaitSite& site) const;    // the same in the host view
  std::string rank_name(int global) const;    // "rank 3"

  // Supervision (supervisor.cc).
  void install_supervisor(bool in_fiber);
  bool keep_waiting(const WaitSite& site, bool first);
  Fault make_fault(Status status, int culprit, std::string text) const;
  // Keeps it and tells the peers; the first one wins. Other hosts are told by the thread that is
  // inside a call, or by abort() once nobody is.
  void raise(Fault fault, bool tells_other_hosts = true);
  void publish_fault(const Fault& raised);  // to the peers of this host
  bool adopt_peer_fault();                  // true if a peer of this host has raised one
  bool check_mismatch();
  bool check_partings(const WaitSite& site);
  bool follow_circle(std::vector<CircleMember>& found);
  bool check_circle();
  bool check_outsiders();
  void show_wait(const WaitSite& site);
  std::optional<RankReport> report_on(int global) const;
  int last_of_chain(int awaited) const;
  bool needs(const WaitSite& site, int local) const;
  void on_mismatch(int peer, const CallRecord& mine, const CallRecord& theirs,
                   std::uint64_t number = 0);
  void raise_mismatch(int peer, std::uint64_t sequence, const CallRecord& here,
                      const CallRecord& there);
  void find_first_mismatch(int local, std::uint64_t* sequence, CallRecord* mine,
                           CallRecord* theirs) const;
  // Maps where a peer of this host has its buffer; false (and a fault) where it cannot.
  bool reach_first(int local, std::uint64_t place);
  std::string current_call() const;  // for texts
  std::string describe_ranks() const;
  std::string describe_rank(int global) const;
  void wake_peers();
  std::vector<int> ended_ranks();

  // Other hosts (remote.cc).
  void suspend_rank(bool fresh);
  bool check_remote(const WaitSite& site);
  void tell_other_hosts(const Fault& raised);
  void on_control(int peer, std::span<const std::byte> message);
  Done flush_links();
  Done run_as_messages(const Call& call);
  Done run_parts(const Call& whole);
  Done run_announced_messages(std::span<const Call> messages, const CallRecord& whole);

  // What they are doing (elsewhere.cc): asked by whoever waits for long, answered inside any wait.
  bool check_elsewhere(int awaited);
  void know_elsewhere();
  void ask_elsewhere(int awaited);
  void on_host_report(int peer, std::span<const std::byte> message);
  void tell_host_report(int peer, bool is_question, std::uint64_t wanted);
  bool differs_elsewhere(const RankReport& theirs);

  // CUDA devices (gpu/run_on_device.cc).
  void take_seat();  // in the team of processes that share the device
  Done standing();   // why it goes on no longer, if so; for other threads
  // Collective (gpu/device_windows.cc).
  Done open_device_window(Communicator& self, void* memory, std::size_t bytes);
  Done post_one_sided(std::span<const gpu::DeviceCall> calls);
  Done fault_of_post(const Done& posted, const gpu::Mismatch& mismatch);
  Done post_on_device(std::span<const gpu::DeviceCall> calls);
  Done wait_on_device();
  bool adopt_kernel_fault();  // true if a kernel of this rank has given up

  // How long waits spin: less where the program computes beside them.
  Waiter::Budget alone_budget;
  bool beside_the_program = false;
  void choose_budget(bool beside);

  // Entering and leaving a list of calls.
  Done enter();
  void leave();
  // What body throws becomes this rank's fault.
  template <class Body>
  Done or_fault(Body&& body) {
    return guarded("a call", body, [this](Error& error) { fail_call(error); });
  }
  void fail_call(Error& error);
  bool forked() const { return made_in != fork_generation(); }  // the handle is the parent's
  // abort() and revoke(): tells the peers, and waits until the call in progress has left.
  void end_calls(const char* what);

  Done run_group(std::span<const Call> calls);
  Done run_collective(const Call& call);
  std::size_t collect_fusable(std::span<const Call> calls);
  Done run_fused(const Call& first);
  Done announce_empty(const CallRecord& record);
  host::ConnectedCall lend_connections(const host::HostCall& call);
  Done run_connected(const host::HostCall& call, const Plan& plan);
  Done run_hierarchical(const host::HostCall& call, const Plan& plan);
  void run_two(const std::function<void()>& first, const std::function<void()>& second);
  // `whole`: the collective that these messages make up, if they do.
  Done run_point_to_point(std::span<const Call> calls, const CallRecord* whole = nullptr);

  // Taking back what peers of this host may be touching (withdrawal.cc).
  void install_withdrawal();
  bool await_touches(const WaitSite& site, bool first);
  Done cut_off(const void* memory, std::size_t bytes);
  bool is_reachable(const void* memory, std::size_t bytes) const;
  bool stands_still(int local) const;  // stopped or frozen, as far as this process can see
  std::int64_t withdrawal_began_ns = 0;
  bool touches_may_go_on = false;  // of a rank of another process, when the wait for them ended

  // One-sided calls (run_one_sided.cc).
  OneSided& one_sided();
  std::byte* reachable(const Window& window, int peer) const;
  bool take_puts();
  bool take_puts_of(int peer);
  bool refuse_put(int peer, const char* what);
  std::uint64_t place_of_window(const void* memory, std::size_t bytes) const;
  std::uint64_t withdrawals() const;
  bool windows_are_whole();
  void withdraw_window(Window& window);
  Done open_lane(int peer);
  Done hear_lane(int peer);
  bool send_slot(Connection& connection, const void* from, std::size_t bytes,
                 const CallRecord& record);
  Done put(const Call& call);
  Done wait_signal(const Call& call);
  Done run_one_sided(std::span<const Call> calls);

  Done why_it_ended();  // after an executor gave up
  Done adopted_fault();

  std::shared_ptr<gpu::HostedRank> hosted;  // a rank on a GPU whose calls pass through the host
  // Where processes share GPUs and there are several: the ranks of this one's GPU; the first ranks
  // of all GPUs, null where this is none of them.
  std::shared_ptr<Communicator> on_gpu, of_leaders;
  std::shared_ptr<gpu::DeviceWindows> device_windows;  // once there is one
  // What does puts and signals of a rank on a GPU, once there is a window; or `hosted`. Set under
  // fault_mutex: raise() ends it.
  std::shared_ptr<gpu::HostedRank> window_rank;
  std::unique_ptr<gpu::ProcessHooks> seat;  // last: it goes before what it uses
};

}  // namespace rondo
