// SPDX-License-Identifier: Apache-2.0
// OutsideMessages: a rank's messages from and to ranks of other processes, on its own stream.
//
// They wait for no other rank of this process: a rank that waits for an outside peer would
// otherwise hold back what that peer's peers need from here. Their order is only that of the rank's
// own calls. Guarded by the team's mutex. Cost: that of process_messages.h, and a thread per group
// if launches block.
#pragma once

#include <functional>
#include <vector>

#include "base/result.h"
#include "base/thread.h"
#include "collectives/gpu/team/team_context.h"

namespace rondo::gpu {

class OutsideMessages {
 public:
  // over: called without the mutex when a launch that continued after launch() has finished.
  using Over = std::function<void(const LaunchPosition& site, const Status&)>;
  OutsideMessages(TeamContext& team, int rank, Over over)
      : team_(team), rank_(rank), over_(std::move(over)) {}
  ~OutsideMessages();
  OutsideMessages(const OutsideMessages&) = delete;
  OutsideMessages& operator=(const OutsideMessages&) = delete;

  void wait_for_launcher();

  void begin_group();
  void add(const PostedCall& call);
  // Launches the added messages on the rank's first stream. True: it continues, and over() is
  // called at its end.
  Result<bool> launch(Mismatch* mismatch);
  // Call once they are launched.
  Status end(const LaunchPosition& site);

 private:
  Status launch_on_a_thread(const LaunchPosition& site, Mismatch* mismatch);

  TeamContext& team_;
  const int rank_;
  const Over over_;
  std::vector<ProcessMessage> messages_;
  std::vector<PostedCall> posts_;
  Thread launcher_;
};

}  // namespace rondo::gpu
