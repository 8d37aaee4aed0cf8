// InternodeStatus: ranks on GPUs of several hosts tell rank 0 which calls they make, how far their
// kernels are and for whom their messages wait; rank 0 detects (failure_detector.h), and whatever
// ends one of them ends all. They tell each other of their messages (message_notes.h).
//
// A tree over the hosts (status_tree.h) of control messages on the communicator's links, which the
// rank's proxy drives here while no call does. Guarantees: a verdict and a death reach all within
// some milliseconds (a death once somebody waits in vain, for 0.3 s), whatever other ranks are
// stopped or dead; where rank 0 itself is gone, the others name it, or the rank above them that
// ended before it, where they cannot have heard rank 0's verdict. announce(), end() and gone() may
// be called from any thread, all else from the proxy's. Cost: the tree's; announce() is a copy of
// 16 bytes under a lock.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "collectives/watchdog/failure_detector.h"
#include "collectives/watchdog/fault.h"
#include "collectives/watchdog/message_notes.h"
#include "collectives/watchdog/status_tree.h"
#include "transport/net/remote_links.h"
#include "transport/proxy/proxy.h"

namespace rondo::gpu {

class InternodeStatus final : public ProxyTask {
 public:
  struct Options {
    int rank = 0, size = 1;
    const HostShape& shape;
    RemoteLinks& links;  // of the communicator, to all its ranks
    std::function<std::string(int)> name_of;
    std::function<void(Fault)> raise;           // from the proxy; the receiver tells other hosts
    std::function<Progress()> progress;         // of this rank's kernels
    std::function<std::optional<Wait>()> wait;  // of its messages
    std::function<const Error*(int*)> lost;  // of their connections to others: the first that ended
  };
  explicit InternodeStatus(Options options);

  Status begin();  // once all know where all listen
  // The link to the parent is open, or will never be: each sees the other's end from then on. From
  // any thread.
  bool has_joined() const { return joined_.load(std::memory_order_acquire); }

  // A collective that this rank has enqueued; never one that is captured.
  Status announce(const CallRecord& record);
  MessageNotes& notes() { return notes_; }  // of its messages
  // The communicator has ended, here at least.
  void end();
  // Sends a fault, found by any rank, to the neighbours in the tree, which pass it on.
  void tell(const Fault& fault);
  bool has_ended() const { return ended_.load(std::memory_order_acquire); }
  // A rank that is known to have ended or left, or -1.
  int gone() const { return gone_.load(std::memory_order_acquire); }
  // A control message of its kinds.
  void report(int peer, std::span<const std::byte> message);

  // Tells and hears what is new, every half a millisecond.
  bool progress() override;
  bool arm() override { return options_.links.arm(); }
  int poll_fd() const override { return options_.links.poll_fd(); }
  // The rank leaves, in order or after end(); waits a little until that is told.
  void finish() override;

 private:
  bool detects() const { return options_.rank == 0; }
  bool is_joined() const;
  void report(const Progress& own);
  void take_news(const StatusItem& news);
  std::vector<CallRecord> take_calls(std::size_t most, std::uint64_t* first);
  void send(int peer, std::span<const std::byte> message);
  void tell_of_messages();
  std::optional<Wait> own_wait() const;
  void raise(const Fault& fault);

  const Options options_;
  FailureDetector detector_;  // rank 0's hears of all, the others' of their own rank and rank 0
  StatusTree tree_;
  int detector_gone_for_ =
      -1;  // rank 0 ended without a word: itself, or the rank that ended before

  std::mutex mutex_;
  std::condition_variable told_some_;
  std::vector<CallRecord> calls_;  // announced, not told yet
  std::uint64_t called_ = 0;
  std::atomic<bool> ended_{false};  // some fault is known here

  MessageNotes notes_;
  std::atomic<int> gone_{-1};
  std::atomic<bool> joined_{false};

  std::int64_t now_ns_ = 0, notes_at_ = 0;
};

}  // namespace rondo::gpu
