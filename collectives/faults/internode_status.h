// SPDX-License-Identifier: Apache-2.0
// InternodeStatus: ranks on GPUs of several hosts report to rank 0 which calls they make, how far
// their kernels are and which ranks their messages wait for. Rank 0 detects failures
// (failure_detector.h); a fault that ends one rank ends all. Ranks also compare the sizes of their
// messages (message_notes.h).
//
// Control messages travel up a tree over the hosts (status_tree.h), on the communicator's links,
// which the rank's proxy drives while no call does. Guarantees: a verdict reaches all ranks within
// a few milliseconds, also if other ranks are stopped or dead; a death does so once a rank has
// waited for 0.3 s without progress. If rank 0 itself is gone, the others name it, or the rank
// above them that ended before it, if rank 0's verdict cannot have reached them. Any thread may
// call announce(), end() and gone(); only the proxy's thread calls the rest. Cost: the tree's;
// announce() copies 16 bytes under a lock.
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
#include "collectives/faults/failure_detector.h"
#include "collectives/faults/fault.h"
#include "collectives/faults/message_notes.h"
#include "collectives/faults/status_tree.h"
#include "transport/net/remote_links.h"
#include "transport/proxy/proxy.h"

namespace rondo::gpu {

class InternodeStatus final : public ProxyTask {
 public:
  struct Options {
    int rank = 0, size = 1;
    const HostShape& shape;
    RemoteLinks& links;  // the communicator's links, to all ranks
    std::function<std::string(int)> name_of;
    std::function<void(Fault)> raise;           // by the proxy; the receiver reports to other hosts
    std::function<Progress()> progress;         // of this rank's kernels
    std::function<std::optional<Wait>()> wait;  // of this rank's messages
    std::function<const Error*(int*)> lost;     // of the kernels' connections: the first that ended
    // For status queries: RankContext::show_device_wait(), every 20 ms.
    std::function<void(std::uint64_t begun, const std::optional<LongWait>&)> show;
  };
  explicit InternodeStatus(Options options);

  Status begin();  // call once all ranks know all listening addresses
  // True if the link to the parent is open or can never open; each side then sees when the other
  // ends. From any thread.
  bool has_joined() const { return joined_.load(std::memory_order_acquire); }

  // A collective that this rank enqueued, never a captured one. Blocks while too many are unsent.
  Status announce(const CallRecord& record);
  MessageNotes& notes() { return notes_; }  // of its messages
  // The communicator has ended on this rank.
  void end();
  // Sends a fault, found by any rank, to the neighbors in the tree, which forward it.
  void report_fault(const Fault& fault);
  bool has_ended() const { return ended_.load(std::memory_order_acquire); }
  // A rank known to have ended or left, or -1.
  int gone() const { return gone_.load(std::memory_order_acquire); }
  // Takes a message of the tree or of MessageNotes.
  void report(int peer, std::span<const std::byte> message);

  // Sends and receives news, every 0.5 ms.
  bool progress() override;
  bool arm() override { return options_.links.arm(); }
  int poll_fd() const override { return options_.links.poll_fd(); }
  // The rank leaves, in order or after end(). Waits at most 2 s until this is sent.
  void finish() override;

 private:
  bool detects() const { return options_.rank == 0; }
  bool is_joined() const;
  void report(const Progress& own);
  void take_news(const StatusItem& news);
  std::vector<CallRecord> take_calls(std::size_t maximum, std::uint64_t* first);
  void send(int peer, std::span<const std::byte> message);
  void report_messages();
  void show_wait(const Progress& own);
  std::optional<Wait> own_wait() const;
  void raise(const Fault& fault);

  const Options options_;
  FailureDetector detector_;  // rank 0's sees all ranks; the others' their own rank and rank 0
  StatusTree tree_;
  int detector_gone_for_ =
      -1;  // rank 0 ended without leaving: rank 0, or the rank that ended before it

  std::mutex mutex_;
  std::condition_variable reported_some_;
  std::vector<CallRecord> calls_;  // announced but not sent yet
  std::uint64_t called_ = 0;
  std::atomic<bool> ended_{false};  // a fault is known on this rank

  MessageNotes notes_;
  std::atomic<int> gone_{-1};
  std::atomic<bool> joined_{false};

  std::int64_t now_ns_ = 0, notes_at_ = 0, shown_at_ = 0;
};

}  // namespace rondo::gpu
