// DeviceTeam: the ranks of a communicator that live on CUDA devices of one process.
//
// They meet on the host: each posts its call, and the last arriver launches for all of them: one
// kernel without waits, on its own stream, which has waited for the others'; or, over connections,
// one kernel for each device, on a stream of one of its ranks (team_launches.h). Then every rank's
// stream waits for the kernel that served it. So no stream ever holds a wait for work that is not
// yet enqueued, however streams share hardware queues. Collectives run in the order in which they
// were launched, whatever their streams, graphs' replays included (stream_order.h); messages in the
// order of their own ranks' calls (rank_order.h).
//
// A rank: post() everything of one group, then posted work has been launched when launched() says
// so, then join_streams(). Ranks of one thread post for all before any waits. Threads may post at
// once; the team's mutex is held for the launches.
// Cost: an event record and a wait per rank and call on top of the launch; none where all ranks use
// one stream.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "collectives/gpu/graph_messages.h"
#include "collectives/gpu/memory_use.h"
#include "collectives/gpu/outside_messages.h"
#include "collectives/gpu/posted_calls.h"
#include "collectives/gpu/rank_order.h"
#include "collectives/gpu/team_context.h"
#include "collectives/gpu/team_launches.h"
#include "collectives/planner/device_work.h"

namespace rondo::gpu {

class DeviceTeam {
 public:
  // Peers' memory is opened to each other, all kernels are loaded, connections are made.
  // processes: where there are others, what joins this one to them.
  static Result<std::shared_ptr<DeviceTeam>> make(const TeamOptions& options,
                                                  std::shared_ptr<ProcessTeam> processes = nullptr);
  ~DeviceTeam();
  DeviceTeam(const DeviceTeam&) = delete;
  DeviceTeam& operator=(const DeviceTeam&) = delete;

  int device_of(int rank) const { return context_.options.devices[rank]; }

  ProcessTeam* processes() const { return context_.processes.get(); }  // null: all ranks are here

  // By the devices' planner; 0 where it allows nothing. Any thread.
  double predicted_ns(const CallRecord& record) const {
    return gpu::predicted_ns(context_.connections.facts(), record);
  }

  const DevicePlanFacts& plan_facts() const { return context_.connections.facts(); }
  // By each rank, before its first call: the first one's counts, which all ranks' are equal to.
  void set_tuned(std::shared_ptr<const TunedWays> ways);

  bool has_multicast() const { return context_.connections.facts().multicast; }

  // Posts the calls of one group of `rank`, in order. The rank's device must be current, but where
  // all ranks are here and no stream is a default one. Launches what becomes complete by it.
  Status post(int rank, std::span<const Call> calls, Mismatch* mismatch);

  // Whether all that the rank has posted is launched; waits for it.
  bool launched(int rank, std::chrono::microseconds at_most);
  // An error that ended the team, if any: then nothing more will be launched.
  Status failure();
  // An error of what was launched for this rank after its post() had returned.
  Status late_failure(int rank);
  void fail_all(const Status& why);

  // Makes the streams of the rank's last post() wait for what was launched.
  Status join_streams(int rank);

  // Of which composed calls consist (composed_calls.h).
  void set_parts(int rank, const RankParts& parts);

  // The ranks that have not made the call that this rank waits for.
  std::vector<int> missing(int rank);

  // Gives device memory back once all ranks here have said so; takes it again.
  Status suspend(int rank, const net::Deadline& deadline);
  Status resume(int rank, const net::Deadline& deadline);
  GpuMemoryUse memory(int rank);

  // Kernels over connections: every wait in them ends, now and ever after.
  void stop_kernels();
  // Why a kernel of this rank gave up, if one did.
  std::optional<Fault> kernel_fault(int rank) const;

 private:
  struct RankState {
    RankStreams streams;                        // of the post in progress
    bool collects = false;                      // it has collectives
    RankOrder order;                            // of messages
    std::unique_ptr<OutsideMessages> messages;  // null: there are no other processes
    bool launching = false;                     // its messages are, on a thread of their own
    Status launched = {};                       // what came of that
  };

  DeviceTeam(const TeamOptions& options, std::shared_ptr<ProcessTeam> processes);
  Status open();
  Status open_rank(int rank);
  Status post_calls(int rank, std::span<const Call> calls, Mismatch* mismatch);
  Status launch_messages(int rank, std::span<const MatchedMessage> matched);
  Status launch_together(int rank, std::span<const MatchedMessage> matched);
  Status post_collective(int rank, const PostedCall& call, Mismatch* mismatch);
  void messages_are_over(int rank, const Status& result);
  bool launches_are_over(double seconds) const;
  bool all_are_over() const;

  TeamContext context_;
  std::mutex mutex_;
  std::condition_variable launched_;
  Status failure_;
  PostedCalls posted_;
  TeamLaunches launches_;
  GraphMessages graph_messages_;
  std::vector<RankState> ranks_;
  std::atomic<bool> stopped_{false};  // the kernels
};

}  // namespace rondo::gpu
