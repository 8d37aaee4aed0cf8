// PostedCalls: what the ranks of one process have posted and nobody has launched yet: collectives,
// by their number, until all ranks of the process have come, and messages between these ranks, by
// sender and receiver, in order.
//
// Only keeps and compares; the caller synchronizes threads. Guarantees: a rank whose call is
// another one than those of the ranks before it learns of it here. Cost: a record and some words a
// rank and call.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "base/gpu.h"
#include "base/result.h"
#include "collectives/call.h"
#include "collectives/gpu/launch/direct_launches.h"
#include "collectives/planner/device_plan.h"
#include "collectives/watchdog/fault.h"

namespace rondo::gpu {

// With addresses that its device can use, and the rank's limits.
struct PostedCall {
  Call call;
  GpuEvent ready = nullptr;  // in its stream, before the call: TeamContext::note() sees to that
  GpuCaptureInfo capture;
};

// A collective as all ranks posted it; ranks of other processes have no part here.
struct JointCall {
  std::vector<PostedCall> posted;  // by rank
  std::vector<bool> here;
  int arrived = 0;

  std::vector<Buffers> buffers(std::vector<Buffers> all = {}) const;  // in memory of `all`
  int max_ctas() const;                                               // that all of its ranks allow
};
int max_ctas_of(const Call& call);  // kNoCtaLimit where nothing is said
// Copies by copy engines (NCCL's CTA policy ZERO: cudaMemcpyAsync moves the data, and no kernel
// takes a multiprocessor from the program), as soon as one of its ranks asks for it.
bool by_engines(std::span<const PostedCall> posted);

struct MatchedMessage {
  PostedCall send, receive;
  int from = 0, to = 0;
};

class PostedCalls {
 public:
  // here: the ranks of this process.
  PostedCalls(int ranks, std::span<const int> here);

  // The call when this rank is the last to post it, until launched(); else null. An error where
  // other ranks posted another one.
  Result<const JointCall*> post_collective(int rank, const PostedCall& call, Mismatch* mismatch);
  void launched();  // all collectives that are complete
  // Whether the rank is the last to post each of these calls, all of them collectives.
  bool completes(int rank, std::span<const Call> calls) const;
  // Adds the message to `matched` together with the peer's, if that was posted before.
  Status post_message(int rank, const PostedCall& call, Mismatch* mismatch,
                      std::vector<MatchedMessage>* matched);
  void launched(std::span<const MatchedMessage> messages);

  // Whether all that the rank has posted is launched; and who of this process has not made the call
  // that it waits for.
  bool is_launched(int rank) const;
  std::vector<int> missing(int rank) const;

 private:
  struct RankState {
    std::uint64_t collectives = 0, messages = 0, messages_launched = 0;
  };
  int size() const { return static_cast<int>(ranks_.size()); }

  const std::vector<int> here_;
  std::vector<RankState> ranks_;
  std::deque<JointCall> collectives_;                     // the first: of number launched_
  std::uint64_t launched_ = 0;                            // collectives
  std::vector<std::deque<PostedCall>> sends_, receives_;  // [sender * ranks + receiver]
};

}  // namespace rondo::gpu
