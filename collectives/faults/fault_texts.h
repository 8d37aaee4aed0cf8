// SPDX-License-Identifier: Apache-2.0
// Texts of fault messages, in one place for ranks on hosts and on GPUs.
//
// Guarantees: the same fault has the same text on hosts and on GPUs. If two ranks differ, the lower
// one is named first, so all ranks report the same text. tests/golden/files/faults_*.txt hold the
// texts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/types.h"

namespace rondo::cuda {
enum class CountFault : std::uint32_t;
}

namespace rondo::fault_texts {

// A rank and the text of its call.
struct MadeCall {
  int rank = -1;
  std::string call;
  int waits_for = -1;  // the rank that it waits for, or -1
};

// "rank 3"; "ranks 1, 2"; "its peers" if empty.
std::string list_of(std::span<const int> ranks);

// ---- mismatches ----

// when: "in call 7, ", or "". grouped: one of the two is a group of calls. If records differ only
// in CallRecord::in_windows(), the text says so: the kernels would deadlock, or return wrong data.
std::string different_calls(std::string_view when, MadeCall one, MadeCall other,
                            bool grouped = false);
std::string different_calls(std::uint64_t call, int rank, const CallRecord& record, int other,
                            const CallRecord& record_of_other);
// The differing calls are not known any more. when: "before call 7", "more than 64 calls ago".
std::string different_calls_before(std::string_view when, int rank, int other);
std::string different_replays(int rank, const CallRecord& record, int other,
                              const CallRecord& record_of_other);
// In a replayed graph, a call differs from rank 0's.
std::string different_replay(int rank, const CallRecord& record);
std::string different_replays_before(const CallRecord& record, int rank, int other);
// A send and its receive differ in size.
std::string different_sizes(int rank, const CallRecord& record, int other,
                            const CallRecord& record_of_other);
// Two sides of one message: different sizes, or a count in device memory (kAllToAllV) on one side
// alone. Empty: they fit.
std::string different_messages(int rank, const CallRecord& record, int other,
                               const CallRecord& record_of_other);
// Each rank waits for the next one, the last for the first.
std::string wait_cycle(std::vector<MadeCall> cycle);
// `outside` waits in a message for `inside`, whose collective cannot complete without it.
std::string waits_outside(const MadeCall& outside, const MadeCall& inside);

// ---- wrong results ----

// What a verified call (RONDO_VERIFY) has found: the first wrong element, on the first such rank.
struct WrongElement {
  std::string name;           // of that rank: "rank 2 (pid 7 on node1)"
  std::uint64_t element = 0;  // its place in the output; a copy: in what the source sent
  int segment = -1;           // which call of a group; -1: a single call
  int source = -1;            // a copy: the rank whose element it is; -1: a reduction
  std::string got, want;
  std::uint64_t number = 0, compared = 0;  // wrong and all compared elements of that rank
  std::vector<int> ranks;                  // all ranks with wrong elements
  int size = 0;                            // of the communicator
};
std::string wrong_result(std::string_view call, const WrongElement& wrong);

// ---- deadlines ----

// call: "call 7, AllReduce(..)", or the text of a message.
std::string timed_out(int rank, double seconds, std::string_view awaited, std::string_view call);
// The others have not reached the rendezvous where ranks launch together.
std::string timed_out_meeting(int rank, double seconds, std::span<const int> missing);
// A warning, not yet a fault. call: "" if they have not reached a rendezvous.
std::string waits_for_long(int rank, double seconds, std::span<const int> ranks,
                           std::string_view call);
// A rank may make at most `ahead` calls before the first of them completes on its stream.
std::string timed_out_ahead(int rank, double seconds, std::size_t ahead);
// The same ahead of other ranks, which have not made these calls.
std::string timed_out_ahead_of(int rank, double seconds, std::uint64_t ahead,
                               std::span<const int> others);
// A wait inside a kernel.
struct KernelWait {
  int rank = -1, peer = -1, channel = 0;
  std::uint64_t step = 0;
  bool wants_room = false;
  double seconds = 0;
};
// missing: ranks that have not reached that launch.
std::string timed_out_in_kernel(const KernelWait& wait, const CallRecord& call,
                                std::span<const int> missing);

// In device memory, as a kernel of `rank` found it.
struct WrongCount {
  int rank = -1, peer = -1;
  cuda::CountFault why = {};
  std::uint64_t sent = 0, taken = 0;
};
std::string wrong_count(const WrongCount& found, const CallRecord& call);

// ---- ranks that are gone ----

enum class Parting { kEnded, kLeft };  // the process ended; it destroyed its communicator
// name: "rank 2 (pid 7 on node1)".
std::string gone_before(std::string_view name, Parting parting, std::string_view call, int waiting);
std::string gone_from_message(std::string_view name, Parting parting, std::string_view call,
                              int waiting);
// name: of a rank of this process.
std::string left_before_meeting(std::string_view name, int waiting);
// For the host side of calls on GPUs.
std::string left_early(int rank);
// A connection ended. why: the network's error.
std::string lost(std::string_view name, std::string_view call, int waiting, std::string_view why);
// The network has no path to a live rank.
std::string unreachable(std::string_view name, std::string_view call, int waiting,
                        std::string_view why);

}  // namespace rondo::fault_texts
