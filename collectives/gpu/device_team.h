// DeviceTeam: the ranks of a communicator that live on CUDA devices of one process.
//
// They meet on the host: each posts its call, the last arriver makes its stream wait for the
// others' and launches one kernel without waits for all of them; then every rank's stream waits for
// that kernel. So no stream ever holds a wait for work that is not yet enqueued, however streams
// share hardware queues. Launches of a team run in the order in which they were made, whatever
// their streams, graphs' replays included (an external event per device); inside a capture the
// order is a capture dependency.
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
#include <span>
#include <string>
#include <vector>

#include "base/gpu.h"
#include "base/result.h"
#include "collectives/call.h"
#include "collectives/gpu/direct_launches.h"
#include "collectives/gpu/process_team.h"

namespace rondo::gpu {

// One call of one rank, with addresses that its device can use.
struct DeviceCall {
  CallRecord record;
  int peer = -1;  // kSend, kRecv
  Side side;
  GpuStream stream = nullptr;
};

class DeviceTeam {
 public:
  // devices[r]: where rank r lives; -1: in another process. Peers' memory is opened to each other,
  // all kernels are loaded. processes: where there are others, what joins this one to them.
  static Result<std::shared_ptr<DeviceTeam>> make(std::vector<int> devices,
                                                  std::shared_ptr<ProcessTeam> processes = nullptr);
  ~DeviceTeam();
  DeviceTeam(const DeviceTeam&) = delete;
  DeviceTeam& operator=(const DeviceTeam&) = delete;

  int device_of(int rank) const { return devices_[rank]; }

  ProcessTeam* processes() const { return processes_.get(); }  // null: all ranks are here

  // Posts the calls of one group of `rank`, in order; the rank's device must be current. Launches
  // what becomes complete by it.
  Done post(int rank, std::span<const DeviceCall> calls, Mismatch* mismatch);

  // Whether all that the rank has posted is launched; waits for it up to `microseconds`.
  bool launched(int rank, int microseconds);
  // An error that ended the team, if any: then nothing more will be launched.
  Done failure();
  void fail_all(const Done& why);

  // Makes the streams of the rank's last post() wait for what was launched.
  Done join_streams(int rank);

  // The ranks that have not made the call that this rank waits for.
  std::vector<int> missing(int rank);

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
    GpuEvent captured = nullptr;     // after its last captured launch
  };

  DeviceTeam(std::vector<int> devices, std::shared_ptr<ProcessTeam> processes);
  bool is_here(int rank) const { return devices_[rank] >= 0; }
  Done open();
  Done add_stream(int rank, GpuStream stream);
  const StreamUse& use_of(int rank, GpuStream stream) const;
  Done post_collective(int rank, const DeviceCall& call, Mismatch* mismatch);
  Done post_message(int rank, const DeviceCall& call, Mismatch* mismatch);
  Done launch_meeting(int rank, Meeting& meeting, Mismatch* mismatch);
  Done launch_messages(int rank);
  Done launch_to_processes(int rank, Mismatch* mismatch);
  Done begin_launch(int rank, const Posted& last, std::span<const Posted> others);
  Done end_launch(int rank, const Posted& last);
  int order_of(int rank) const;  // index of its device's order event

  const GpuApi& api_;
  std::vector<int> devices_;
  const std::shared_ptr<ProcessTeam> processes_;
  int here_ = 0;               // ranks of this process
  std::vector<int> distinct_;  // their devices, each once
  std::vector<int> ctas_;      // by rank: most CTAs of a launch on its device

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
  std::vector<GpuEvent> order_;  // by distinct device: after its last launch
  int last_order_ = 0;
  GpuStream last_stream_ = nullptr;  // of the last launch outside of captures
  bool any_plain_ = false;
  std::uint64_t last_capture_ = 0;
  int last_captured_rank_ = -1;
};

}  // namespace rondo::gpu
