// DeviceTeam: the ranks of a communicator that live on CUDA devices of one process.
//
// They meet on the host: each posts its call, and the last arriver launches for all of them: one
// kernel without waits, on its own stream, which has waited for the others'; or, over connections,
// one kernel for each device, on a stream of one of its ranks (volley.cc). Then every rank's stream
// waits for the kernel that served it. So no stream ever holds a wait for work that is not yet
// enqueued, however streams share hardware queues. Launches of a team run in the order in which
// they were made, whatever their streams, graphs' replays included (an external event per device);
// inside a capture the order is a capture dependency.
//
// A rank: post() everything of one group, then posted work has been launched when launched() says
// so, then join_streams(). Ranks of one thread post for all before any waits. Threads may post at
// once; the team's mutex is held for the launches.
// Cost: an event record and a wait per rank and call on top of the launch; none where all ranks use
// one stream.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/gpu.h"
#include "base/result.h"
#include "base/thread.h"
#include "collectives/communicator/call.h"
#include "collectives/gpu/channels/device_connections.h"
#include "collectives/gpu/channels/multicast_staging.h"
#include "collectives/gpu/device_meetings.h"
#include "collectives/gpu/kernel_watch.h"
#include "collectives/gpu/launch/direct_launches.h"
#include "collectives/gpu/process_team.h"
#include "collectives/gpu/stream_order.h"
#include "collectives/planner/device_plan.h"

namespace rondo {
class Communicator;
}

namespace rondo::gpu {

// One call of one rank, with addresses that its device can use.
struct DeviceCall {
  CallRecord record;
  int peer = -1;  // kSend, kRecv
  Side side;
  GpuStream stream = nullptr;
  int fewest_ctas = 1, most_ctas = kNoCtaLimit;  // that the rank asks for; fewer: of any kernel
  bool copy_engines = false;                     // that it asks for, where the call only copies
  int signal = 0;                                // kPut, kSignal, kWaitSignal
  void* target = nullptr;                        // kPut: in the peer's window
};

// Whether the collective is messages where processes have GPUs of their own.
bool is_split(Collective which);

// What the ranks of a team agreed on.
struct TeamOptions {
  std::vector<int> devices;  // [r]: where rank r lives; -1: in another process
  bool reproducible = false;
  AlgorithmFilter algorithms;
  int fewest_ctas = 1, most_ctas = kNoCtaLimit;  // of a rank, over connections
  double kernel_seconds = 0;  // that a kernel may wait without progress; 0: for ever
};

class DeviceTeam {
 public:
  // Peers' memory is opened to each other, all kernels are loaded, connections are made.
  // processes: where there are others, what joins this one to them.
  static Result<std::shared_ptr<DeviceTeam>> make(const TeamOptions& options,
                                                  std::shared_ptr<ProcessTeam> processes = nullptr);
  ~DeviceTeam();
  DeviceTeam(const DeviceTeam&) = delete;
  DeviceTeam& operator=(const DeviceTeam&) = delete;

  int device_of(int rank) const { return devices_[rank]; }

  ProcessTeam* processes() const { return processes_.get(); }  // null: all ranks are here

  // Whether the devices' planner allows anything that runs the call. Any thread.
  bool can_run(const CallRecord& record) const { return make_device_plan(facts_, record).ok(); }

  // Posts the calls of one group of `rank`, in order; the rank's device must be current. Launches
  // what becomes complete by it.
  Done post(int rank, std::span<const DeviceCall> calls, Mismatch* mismatch);

  // Whether all that the rank has posted is launched; waits for it up to `microseconds`.
  bool launched(int rank, int microseconds);
  // An error that ended the team, if any: then nothing more will be launched.
  Done failure();
  // An error of what was launched for this rank after its post() had returned.
  Done late_failure(int rank);
  void fail_all(const Done& why);

  // Makes the streams of the rank's last post() wait for what was launched.
  Done join_streams(int rank);

  // Communicators of which composed calls consist, as this rank takes part in them; of_leaders:
  // null where it does not. They live as long as the rank's own.
  struct RankParts {
    Communicator* on_gpu = nullptr;
    Communicator* of_leaders = nullptr;
  };
  void set_parts(int rank, const RankParts& parts);

  // The ranks that have not made the call that this rank waits for.
  std::vector<int> missing(int rank);

  // Kernels over connections: every wait in them ends, now and ever after.
  void stop_kernels();
  // Why a kernel of this rank gave up, if one did.
  std::optional<KernelFault> kernel_fault(int rank) const;

 private:
  struct Posted {
    DeviceCall call;
    GpuEvent ready = nullptr;  // in its stream, before the call
    GpuCaptureInfo capture;
  };
  struct Meeting {
    std::vector<Posted> posted;
    std::vector<bool> here;
    int arrived = 0;
  };
  struct StreamUse {
    GpuStream stream;
    GpuEvent ready;
    GpuCaptureInfo capture;
  };
  struct RankState {
    std::uint64_t calls = 0;  // collectives posted
    std::uint64_t messages = 0, matched = 0;
    std::vector<StreamUse> streams;  // of the post in progress
    std::vector<GpuEvent> ready;     // as many as streams were ever used in one post
    bool meets = false;              // the post in progress meets others of this process
    // Of its messages from and to other processes; null: there are none.
    std::unique_ptr<StreamOrder> outside;
    // Where launches block: the newest of them on a thread of their own, and what came of it.
    Thread launcher;
    bool launching = false;
    Done launched = {};
  };
  // One of the devices on which ranks of this process live.
  struct DeviceState {
    int device = -1;
    std::vector<int> ranks;       // that live there
    GpuEvent order = nullptr;     // after its last launch
    GpuEvent captured = nullptr;  // after its last captured launch
    GpuEvent copied = nullptr;    // after its part of copies by the engines of all devices
    GpuStream own = nullptr;      // for ranks whose stream other threads cannot name
    GpuStream stream = nullptr;   // of its last launch outside of captures
    bool newest = false;          // it took part in the newest launch
    void* spare = nullptr;        // of composed calls
  };
  // Where a launch goes: on which device (a place in distinct_) and stream.
  struct Spot {
    int place = 0;
    GpuStream stream = nullptr;
    GpuEvent ready = nullptr;  // where the stream stands, if somebody noted it
    GpuCaptureInfo capture;
    bool volley = false;  // one of several launches, one on each device
  };

  DeviceTeam(const TeamOptions& options, std::shared_ptr<ProcessTeam> processes);
  bool is_here(int rank) const { return devices_[rank] >= 0; }
  Done open();
  Done open_peers(DeviceState& state);
  Done open_device(DeviceState& state);
  Done open_connections();
  Done make_connections();
  Done open_meetings();
  Result<bool> may_copy_in_bulk();
  Done launch_part(const DevicePlan& plan, const CallRecord& record, std::span<const Side> sides,
                   int most_ctas, const Spot& spot);
  Done add_stream(int rank, GpuStream stream);
  const StreamUse& use_of(int rank, GpuStream stream) const;
  Done post_collective(int rank, const DeviceCall& call, Mismatch* mismatch);
  Done post_message(int rank, const DeviceCall& call, Mismatch* mismatch);
  Done launch_meeting(int rank, Meeting& meeting, Mismatch* mismatch);
  Done launch_messages(int rank);
  Spot spot_for_process(const Meeting& meeting) const;
  Done launch_led(Meeting& meeting, Mismatch* mismatch);
  Done launch_as_messages(Meeting& meeting, Mismatch* mismatch);
  Done launch_to_processes(int rank, Mismatch* mismatch);
  Done launch_on_a_thread(int rank, const Spot& spot, Mismatch* mismatch);
  Done launch_volley(const DevicePlan& plan, Meeting& meeting);
  // One launch or more on every device of this process: where they go; what comes after them.
  Result<std::vector<Spot>> begin_volley(const Meeting& meeting);
  Done end_volley(const std::vector<Spot>& spots);
  class ComposedCall;
  Done launch_composed(Meeting& meeting);
  Result<std::byte*> spare_of(int rank);
  bool copies_by_engines(const Meeting& meeting) const;
  Done launch_copies(const Meeting& meeting);
  // facts_ for this call: within the CTAs that all its ranks allow.
  DevicePlanFacts facts_of(const Meeting& meeting) const;
  int direct_ctas(int rank, std::span<const Posted> all) const;
  Spot spot_of(int rank, const StreamUse& use) const;
  // Before and after a launch: its stream waits for those of the others and for the launches
  // before; whoever comes next waits for it.
  Done begin_launch(const Spot& spot, std::span<const Posted> others);
  Done end_launch(const Spot& spot);
  void set_newest(const Spot& spot);
  int place_of(int rank) const;  // of its device in distinct_
  void end_kernels();
  bool launches_are_over(double seconds) const;

  const GpuApi& api_;
  const TeamOptions options_;
  const std::vector<int>& devices_;
  const std::shared_ptr<ProcessTeam> processes_;
  int here_ = 0;  // ranks of this process
  std::vector<int> here_ranks_;
  std::vector<DeviceState> distinct_;
  std::vector<int> ctas_;  // by rank: most CTAs of a direct launch on its device
  DevicePlanFacts facts_;
  std::vector<RankParts> parts_;  // by rank
  bool all_here_reach_ = true;    // devices of this process
  std::unique_ptr<DeviceConnections> own_connections_;
  DeviceConnections* connections_ = nullptr;         // where calls may need them; or the processes'
  std::unique_ptr<DeviceMeetings> device_meetings_;  // of devices that reach each other, else null
  std::unique_ptr<MulticastStaging> multicast_;      // where it is asked for and can be, else null

  std::mutex mutex_;
  std::condition_variable launched_;
  Done failure_;
  std::vector<RankState> ranks_;
  std::deque<Meeting> meetings_;                      // front: of call number first_meeting_
  std::uint64_t first_meeting_ = 0;                   // collectives launched so far
  std::vector<std::deque<Posted>> sends_, receives_;  // [sender * n + receiver]
  struct Match {
    Posted send, receive;
    int from, to;
  };
  std::vector<Match> matches_;  // made by the post in progress
  // Messages of the post in progress from or to other processes.
  std::vector<ProcessMessage> outside_;
  std::vector<Posted> outside_posts_;
  bool any_plain_ = false, any_capture_ = false;
  std::uint64_t last_capture_ = 0;  // of the newest launch; 0: it was none
};

}  // namespace rondo::gpu
