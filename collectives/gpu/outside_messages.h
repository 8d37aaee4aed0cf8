// OutsideMessages: a rank's messages from and to ranks of other processes, on its own stream.
//
// They meet nobody, and wait for no other rank of this process: who waits for a peer there would
// keep back what that peer's peers need from here. Their order is the rank's alone. With the team's
// mutex. Cost: as process_messages.h says, and a thread a group where launches block.
#pragma once

#include <functional>
#include <vector>

#include "base/result.h"
#include "base/thread.h"
#include "collectives/gpu/rank_order.h"
#include "collectives/gpu/team_context.h"

namespace rondo::gpu {

class OutsideMessages {
 public:
  // over: called without the mutex when a launch is over that went on after launch() had returned.
  OutsideMessages(TeamContext& team, int rank, RankOrder& order,
                  std::function<void(const Status&)> over)
      : team_(team), rank_(rank), order_(order), over_(std::move(over)) {}
  ~OutsideMessages();
  OutsideMessages(const OutsideMessages&) = delete;
  OutsideMessages& operator=(const OutsideMessages&) = delete;

  void wait_for_launcher();

  void begin_group();
  void add(const PostedCall& call);
  // Those that were added, on this stream. True: it goes on; over() comes.
  Result<bool> launch(const RankStreams::Use& on, Mismatch* mismatch);

 private:
  Status launch_on_a_thread(const LaunchPosition& site, Mismatch* mismatch);

  TeamContext& team_;
  const int rank_;
  RankOrder& order_;
  const std::function<void(const Status&)> over_;
  std::vector<ProcessMessage> messages_;
  std::vector<PostedCall> posts_;
  Thread launcher_;
};

}  // namespace rondo::gpu
