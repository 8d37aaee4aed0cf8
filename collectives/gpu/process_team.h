// ProcessTeam: the ranks of a communicator that live on GPUs in several processes of a host.
//
// Where no GPU is used by two processes, collectives run over connections, small ones by lines that
// are pushed into each other's memory: the DeviceTeam of every process launches kernels for its own
// ranks, and this team announces calls, keeps the connections and watches the kernels; gather,
// scatter and all-to-all are messages. All other calls, and all calls of processes that share a
// GPU, are led by the process of rank 0, which every GPU must reach by P2P then. A led call, on
// every process's own stream:
//   others   [copy into staging] READY, wait for DONE, [copy out of staging]
//   leader   wait for all READY, resolve and direct kernel, all DONE
// READY and DONE are words on the ProcessBoard, written and awaited by stream memory operations: no
// kernel waits, no stream waits for what its own process has not enqueued, and nobody's host waits
// for another's but where a rank is 256 calls ahead or memory is first shared. Buffers that the
// leader has mapped (ncclMemAlloc'd, registered) are worked on in place; others are staged, in
// steps that fit, double-buffered. Flags count the steps of one call and are reset by whoever
// awaits them, so plain calls and replays of captured ones mix.
//
// Messages between two processes need no leader: the sender copies into a slot, the receiver out
// of it; two slots a pair, so what fits never waits for its receiver.
//
// A thread watches (process_watch.cc): peers that died, ranks that never come, faults, abort; then
// it releases every flag that this process's streams await, and ends its kernels. It also keeps the
// leader's MemoryDesk.
// Cost: per call and process 3 memory operations, on the leader 4 for each other process and two
// launches; staged bytes are copied twice more.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "base/gpu.h"
#include "base/thread.h"
#include "collectives/gpu/channels/device_connections.h"
#include "collectives/gpu/composition.h"
#include "collectives/gpu/launch/call_steps.h"
#include "collectives/gpu/launch/direct_launches.h"
#include "collectives/gpu/memory_desk.h"
#include "collectives/gpu/neighbourhood.h"
#include "collectives/gpu/process_board.h"
#include "collectives/gpu/process_hooks.h"
#include "transport/socket/socket.h"

namespace rondo::gpu {

// A call that does not match a peer's, in words, and whose.
struct Mismatch {
  int peer = -1;
  CallRecord own, other;
  std::string text;
};

// A message between a rank of this process and one of another.
struct ProcessMessage {
  int from = 0, to = 0;
  CallRecord record;
  const void* send = nullptr;  // where this process sends,
  void* receive = nullptr;     // or else receives
  bool in_collective = false;  // has been announced
};

class ProcessTeam {
 public:
  struct Seats {
    int device = 0;  // of its first rank
    int most_ctas = 1;
    int party = 0;             // this process; 0 leads
    std::vector<int> devices;  // by rank; -1: in another process
    Neighbourhood around;
  };
  // connections: null where no call runs over any.
  static Result<std::shared_ptr<ProcessTeam>> make(Seats seats, std::unique_ptr<ProcessBoard> board,
                                                   std::unique_ptr<DeviceConnections> connections,
                                                   std::vector<net::Socket> sockets);
  ~ProcessTeam();
  ProcessTeam(const ProcessTeam&) = delete;
  ProcessTeam& operator=(const ProcessTeam&) = delete;

  const std::vector<int>& local_ranks() const { return local_; }
  bool is_local(int rank) const { return seats_.around.party_of[rank] == seats_.party; }
  // For the planner; and what is planned, null where nothing runs over connections.
  const DevicePlanFacts& facts() const { return seats_.around.plan; }
  DeviceConnections* connections() const { return connections_.get(); }
  int device() const { return seats_.device; }  // on whose streams led calls are enqueued
  // Whether gather, scatter and all-to-all are messages.
  bool splits_into_messages() const {
    return seats_.around.one_owner || !seats_.around.leader_reaches;
  }
  const GpuGroups& groups() const { return groups_; }
  std::uint64_t staging_bytes() const { return shape_.rank_bytes; }
  // Ranks that have not made the newest call that this process has; while nothing is captured.
  std::vector<int> not_come() const;

  // The ranks' communicators, while they live.
  void join(ProcessHooks* hooks);
  void leave(ProcessHooks* hooks);
  void look_soon();  // something ended

  // Of a call that the DeviceTeam will enqueue: tells the other processes, compares.
  Done announce(const CallRecord& record, bool capturing, Mismatch* mismatch);
  // Enqueues this process's part; sides[i] is local_ranks()[i]'s. One caller at a time.
  Done collective(const CallRecord& record, std::span<const Side> sides, GpuStream stream,
                  bool capturing, Mismatch* mismatch);
  Done messages(std::span<const ProcessMessage> messages, GpuStream stream, bool capturing,
                Mismatch* mismatch);
  // The same in two steps: one caller at a time prepares; ranks may enqueue at once.
  struct MessagePieces;
  Result<std::shared_ptr<const MessagePieces>> prepare_messages(
      std::span<const ProcessMessage> messages, Mismatch* mismatch);
  Done enqueue_messages(const MessagePieces& prepared, GpuStream stream, bool capturing);

  std::uint64_t device_bytes() const { return desk_->bytes(); }

 private:
  struct Enqueued {
    const CallRecord& record;
    std::span<const Side> sides;
    GpuStream stream;
    const CallSteps& steps;
    std::vector<std::uint32_t> flags = {};  // of the local ranks' descriptors
    bool staged = false;
  };
  // What this process waits for, as the flags tell.
  struct Waiting {
    bool in_call = false;
    std::vector<int> ranks;  // that have not come, or not gone on
    bool message = false;
  };

  ProcessTeam(Seats seats, std::unique_ptr<ProcessBoard> board);
  Done open(std::vector<net::Socket> sockets);
  Done standing();
  net::Patience patience();
  int ranks() const { return static_cast<int>(seats_.around.party_of.size()); }
  bool leads() const { return seats_.party == 0; }

  // process_team.cc
  Done wait_for_room(std::uint64_t sequence);
  bool has_room(std::uint64_t sequence) const;
  void publish(std::uint64_t sequence);
  Result<cuda::CallDescriptor> describe(const Enqueued& call, int rank, const Side& side);
  Result<std::uint32_t> place(int rank, const cuda::CallDescriptor& made);
  Done compare(std::uint64_t sequence, const CallRecord& record, Mismatch* mismatch);
  Done copy_scalar(int rank, const Side& side, const Enqueued& call);
  Done write(GpuStream stream, std::uint32_t& word, std::uint32_t value);
  Done await(GpuStream stream, std::uint32_t& word, std::uint32_t value, GpuWait how);
  Done follow(const Enqueued& call);
  Done copy_step(const Enqueued& call, std::uint64_t number, bool in);
  Done finish(int rank, GpuStream stream, bool capturing);
  // process_leader.cc
  Done lead(const Enqueued& call);
  Done launch_step(const Enqueued& call, std::uint64_t number);
  // process_messages.cc
  struct LanePieces;
  Done announce_message(const ProcessMessage& message, Mismatch* mismatch);
  Done enqueue_piece(const LanePieces& lane, std::size_t piece, GpuStream stream);
  // process_watch.cc
  void watch();
  void serve_desk(int milliseconds);
  void look(std::int64_t passed_ns);
  std::uint64_t fingerprint() const;
  Waiting waiting() const;
  void check_waiting(const Waiting& waiting);
  bool blame_the_dead(std::span<const int> suspects, int waiting_rank, const std::string& call);
  double device_seconds();
  void warn(const std::string& whom, const std::string& call);
  // process_kernels.cc
  void look_at_kernels();
  void check_launch(int rank);
  void blame(Status status, int culprit, const std::string& text);
  std::string call_in_words() const;
  void release_flags();
  bool drained(double seconds);

  const GpuApi& api_;
  const Seats seats_;
  const std::uint32_t made_in_;  // fork_generation()
  std::vector<int> local_;
  std::unique_ptr<ProcessBoard> board_;
  std::unique_ptr<MemoryDesk> desk_;
  cuda::StagingShape shape_{};
  const GpuGroups groups_;
  std::byte* staging_ = nullptr;    // this process's address, once made
  void* arguments_ = nullptr;       // leader: of the kernel to come
  std::vector<GpuEvent> finished_;  // by local rank: after its newest call
  bool several_devices_ = false;    // of this process
  std::unique_ptr<DeviceConnections> connections_;
  std::vector<std::uint64_t> led_;  // by place of a plain descriptor: the newest led call there

  std::atomic<std::uint64_t> sequence_{0};  // plain collectives so far
  std::vector<std::uint32_t> captured_;     // by rank: descriptors used by captured calls
  std::vector<std::uint64_t> lane_pieces_, lane_messages_;  // by lane, ever

  std::mutex hooks_mutex_;
  std::vector<ProcessHooks*> hooks_;
  std::atomic<bool> released_{false}, stop_{false};
  std::int64_t stalled_ns_ = 0;
  std::uint64_t seen_ = 0;
  bool warned_ = false;
  Fd wake_;
  Thread watch_;
};

}  // namespace rondo::gpu
