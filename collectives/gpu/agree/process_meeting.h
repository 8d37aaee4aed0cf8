// SPDX-License-Identifier: Apache-2.0
// How the processes of a host meet for what their ranks on GPUs share, and agree on it. Each GPU of
// a program counts as a process (gpu_plan.h). One rank of each process calls these functions.
//
// meet_processes() connects all with all by Unix sockets; all map the segment that the leader
// makes. Cost: a meeting (unix_meeting.h) and a message for each other process.
// The others combine the results of a step that each process has done by itself, so that all
// processes continue or none does. A process writes its error into its note on the segment.
// Guarantees: all processes get the same result; every wait ends with the deadline. Cost: two
// messages per process and step.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "collectives/gpu/agree/control_segment.h"
#include "transport/shm/unix_meeting.h"
#include "transport/socket/socket.h"

namespace rondo::gpu {

struct ProcessMeetingRequest {
  int ranks = 1;
  int process = 0;  // this process; 0 is the leader
  std::uint64_t staging_bytes = 0;
  const shm::UnixListener* listener = nullptr;  // this process's
  std::vector<std::string> listeners;           // names of all processes' listeners
  auth::Digest secret;                          // for this meeting only
  net::Deadline deadline;
};
// Sockets to another process: one for the requests of each side, so that answers stay apart.
struct ProcessSockets {
  net::Socket own, theirs;
};
struct ProcessMeeting {
  std::unique_ptr<ControlSegment> segment;
  std::vector<ProcessSockets> sockets;  // [process]; empty for this one
};
// The device on which the segment is used must be current, with its context.
Result<ProcessMeeting> meet_processes(const ProcessMeetingRequest& request);

// The processes of a host, while they meet.
struct ProcessPeers {
  ControlSegment* segment = nullptr;
  std::span<const ProcessSockets> sockets;  // by process; at least the leader's
  int process = 0;                          // 0 is the leader
  std::vector<int> process_of;              // by rank; -1: on another host
  net::Deadline deadline;

  bool leads() const { return process == 0; }
  int processes() const { return static_cast<int>(sockets.size()); }
  int first_rank() const;  // of this process
  const net::Socket& to_leader() const { return sockets[0].own; }
  const net::Socket& of_process(int p) const { return sockets[static_cast<std::size_t>(p)].theirs; }
  MemoryNote& note() const { return segment->offer(first_rank()); }  // of this process
};

// The maximum over all processes.
Result<int> highest_of_all(const ProcessPeers& peers, int own);

// Failure of a process: its first rank, and why.
struct Refusal {
  int rank = 0;
  Error why;
};
// The lowest rank's refusal; nullopt if all succeeded. Error: a process did not answer.
Result<std::optional<Refusal>> refusal_of_any(const ProcessPeers& peers, const Status& own);
// The lowest rank's refusal that is on the segment by now.
std::optional<Refusal> refusal_noted(const ControlSegment& segment);

// MemoryExchange: requests between processes of a host for each other's memory, and the answers.
//
// A process asks the owner of the memory. The owner's watch thread answers, so an answer never
// depends on what the owner's program does. Plain data goes through the control segment, files
// through Unix sockets. Guarantees: a process has one request at a time and can be asked meanwhile;
// every request ends with its deadline; a process that did not answer is not asked again. Cost: a
// round trip between processes, once per block.
class MemoryExchange {
 public:
  using Question = MemoryNote::Question;
  struct Reply {
    MemoryHandle handle;
    std::uint64_t address = 0;
  };

  // process_of: by rank.
  MemoryExchange(ControlSegment& segment, int process, std::vector<int> process_of,
                 std::vector<ProcessSockets> sockets);

  Result<Reply> ask(int process, const Question& question, const MemoryHandle& with,
                    const net::Deadline& deadline);

  // For the watch thread. fd(): where requests of a process arrive (-1: nowhere). serve(): answers
  // one; `answer` may set the note's address. nullopt: not yet; while has_open_request(), call
  // serve() again now and then.
  using Answer = std::function<std::optional<Result<MemoryHandle>>(MemoryNote& asked,
                                                                   const MemoryHandle& with)>;
  int fd(int process) const { return sockets_[process].theirs.get(); }
  bool has_open_request(int process) const { return open_[process].has_value(); }
  void serve(int process, const Answer& answer);
  // Nothing is answered any more, so requests fail at once. Call once the watch thread has stopped.
  void close();

 private:
  ControlSegment& segment_;
  const int process_;
  const std::vector<int> process_of_;
  std::mutex mutex_;  // one question at a time
  std::vector<ProcessSockets> sockets_;
  std::vector<std::optional<MemoryHandle>> open_;  // by process: came with the request
};

}  // namespace rondo::gpu
