// SPDX-License-Identifier: Apache-2.0
// JobView: what the ranks of a job are doing, from one process, from all of a host, or from all
// hosts. Plain data, and the same as JSON, in which processes pass it on.
//
// from_json() validates its input: bytes of another process may be anything. Cost: about 500 bytes
// a rank as JSON.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "transport/shm/host_segment.h"

namespace rondo {

// Of a rank of another library's communicator, which collectives/watch records. For whom its
// kernels wait is found once all that answered is here (watched_ranks.h).
struct WatchedView {
  std::string phase;  // of its oldest call that has not ended: idle (none), entered, enqueued,
                      // in_kernel, unseen (enqueued, and NCCL does not tell when it runs)
  double unseen_seconds = 0;       // how long it has been unseen
  int network_peer = -1;           // a rank, for whose data its network waits; -1: none, or unknown
  std::uint32_t network_step = 0;  // of that transfer
  std::map<std::uint64_t, std::string> calls{};  // collectives around that call, by number
  // Its messages with another rank: how many have begun to run, and how many of them have ended,
  // modulo 256.
  struct Messages {
    std::uint8_t sends_begun = 0, sends_ended = 0, receives_begun = 0, receives_ended = 0;
    bool sends() const { return sends_begun != sends_ended; }  // now
    bool receives() const { return receives_begun != receives_ended; }
  };
  std::map<int, Messages> messages{};  // by rank
  std::uint64_t order = 0;             // of that oldest call among those of its process; 0: unknown
  bool has_graphs = false;             // of CUDA: numbers of calls may differ between ranks
};

struct RankView {
  int rank = -1;  // -1: a place whose rank has not joined
  int pid = 0;
  std::uint64_t process = 0;      // first half of its ProcessId; 0: unknown
  std::string host{}, address{};  // name of its host; its IP address; "": unknown
  int device = -1;                // CUDA device; -1: host memory
  std::uint64_t call = 0;         // newest call that it has entered; 0: none
  std::uint64_t finished = 0;     // newest call that it has finished
  std::uint64_t step = 0;
  int core = -1;             // CPU of a recent call on host memory; -1: unknown
  int waits_for = -1;        // a rank, for which it waits now
  double waits_seconds = 0;  // how long
  std::string waits_in{};    // the call in which it waits
  bool in_message = false;   // that call is a send, receive or put
  bool in_kernel = false;    // its kernels and streams wait; calls are then parts of launches
  bool faulted = false;
  int fault_status = 0, culprit = -1;  // StatusCode; the rank that the fault blames
  std::string fault{};
  int fault_by = -1;         // the rank that found it
  std::string fault_call{};  // what this rank made as the call of the fault; "": unknown
  // running, joining, not_joined, left, ended, stopped, elsewhere (in a PID namespace that is not
  // visible), silent (its process did not answer, and no other process of its host did)
  std::string state = "running";
  std::string doing{};  // "in call 3, AllReduce(...), step 7, waits for rank 1"
  std::array<std::uint64_t, shm::ActivityLine::kCounted> counts{};
  std::uint64_t survivors = 0;  // digest of those that it is about to meet in a shrink; 0: none
  std::optional<WatchedView> watched{};
};

struct CommunicatorView {
  std::string name;                               // given by the program; may be empty
  std::uint64_t hash = 0;                         // equal on all its ranks; 0: unknown
  std::uint64_t host_hash = 0, process_hash = 0;  // of rank 0
  int size = 0;
  int joined = -1;              // while it is being made: ranks that have joined; -1: it is ready
  std::vector<RankView> ranks;  // that are known, by number
};

// TCP connections of a process with one address of another host; or its RDMA traffic with another
// host by one port.
struct LinkView {
  // Name of the other host; IP addresses of both ends, or the port ("mlx5_0:1") and nothing.
  std::string host{}, own{}, address{};
  std::uint64_t sent_bytes = 0, received_bytes = 0;  // since they were made
  double rtt_seconds = 0;
  // Since an earlier question, if there was one at least a second ago; else since they were made.
  std::uint64_t segments = 0, resent_segments = 0;  // with data, sent; of them, sent again
  double bytes_per_second = 0;                      // sent, while data was under way; 0: unknown
  double newest_per_second = 0;  // bytes, of the newest packets; 0: they do not prove a low rate
};

struct ProcessView {
  int pid = 0;
  std::uint64_t process = 0;
  std::string host{}, command{}, job{};           // job: RONDO_JOB
  std::map<std::string, std::string> settings{};  // variables that are set, without secrets
  std::vector<LinkView> links{};
};

struct JobView {
  std::vector<ProcessView> processes;  // that answered
  std::vector<CommunicatorView> communicators;
  std::vector<std::string> silent;  // hosts and processes that did not answer in time
  double collection_seconds = 0;

  // Adds what another process answered; what is known already stays.
  void merge(JobView other);
  Json to_json() const;
  static Result<JobView> from_json(std::string_view text);
};

Json json_of(const RankView& rank);
Json json_of(const LinkView& link);
// "in AllReduce(...) on its GPU, waits for rank 1, for 3.0 s"
std::string kernel_wait_text(const RankView& rank);
std::string hash_text(std::uint64_t hash);  // "0x1f3a"

// shared_cores(): finds ranks of a host that made their newest calls on the same CPU.
//
// Such ranks take turns on it, and each call waits for a switch between them. It may last for a
// moment only: a rank that nobody has bound moves when it waits (kernels/host/nudge.h). Guarantees:
// names only ranks in host memory that run, and each CPU once, though its ranks have
// several communicators. Cost: one pass over all ranks.
//
//   for (const SharedCpu& shared : shared_cores(view)) show(shared.text, kSharedCpuRemedy);
struct SharedCpu {
  std::string host;        // its name; "": unknown
  int cpu = -1;            // the kernel's number
  std::vector<int> ranks;  // of the first communicator in which it was found; at least two
  std::string text;        // what was found
};
inline constexpr const char* kSharedCpuRemedy =
    "if the host has a core for each rank, start them by rondo run, or by a launcher that binds "
    "each to its own";

std::vector<SharedCpu> shared_cores(const JobView& view);

}  // namespace rondo
