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
#include "collectives/gpu/team_context.h"

namespace rondo::gpu {

class OutsideMessages {
 public:
  // over: called without the mutex when a launch is over that went on after launch() had returned.
  OutsideMessages(TeamContext& team, int rank, std::function<void(const Done&)> over)
      : team_(team), rank_(rank), over_(std::move(over)) {}
  ~OutsideMessages();
  OutsideMessages(const OutsideMessages&) = delete;
  OutsideMessages& operator=(const OutsideMessages&) = delete;

  Done open();
  // Whether all launches have ended; after a launch that goes on has returned.
  bool is_over() const { return order_.is_over(); }
  void wait_for_launcher();
  // A stream of the rank comes after the messages so far.
  Done follow(const RankStreams::Use& use);

  void begin_group();
  void add(const PostedCall& call);
  // Those that were added, on this stream. True: it goes on; over() comes.
  Result<bool> launch(const RankStreams::Use& on, Mismatch* mismatch);

 private:
  Done launch_on_a_thread(const LaunchSite& site, Mismatch* mismatch);
  static LaunchSite site_of(const RankStreams::Use& use) {
    return {0, use.stream, use.capture, use.ready, false};
  }

  TeamContext& team_;
  const int rank_;
  const std::function<void(const Done&)> over_;
  StreamOrder order_;
  std::vector<ProcessMessage> messages_;
  std::vector<PostedCall> posts_;
  Thread launcher_;
};

}  // namespace rondo::gpu
