// InternodeStatus: ranks on GPUs of several hosts tell rank 0 which calls they make and how far
// their kernels are; rank 0 judges (failure_detector.h), and whatever ends one of them ends all.
//
// A star of control connections, driven by a thread of each rank (internode_kernels.h). Guarantees:
// a fault of any rank, an abort and a death reach all others within some milliseconds (a death once
// somebody waits in vain, for 0.3 s); where rank 0 itself is gone, the others name it. announce()
// and end() may be called from any thread, all else from one. Cost: a message for all that is new,
// at most one in 5 ms; announce() is a copy of 16 bytes under a lock.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "collectives/watchdog/failure_detector.h"
#include "collectives/watchdog/fault.h"
#include "transport/net/remote_links.h"

namespace rondo::gpu {

class InternodeStatus {
 public:
  struct Terms {
    int rank = 0, size = 1;
    std::array<std::byte, 32> secret{};
    std::function<std::string(int)> name_of;
    std::function<void(Fault)> raise;  // from the thread that calls tick()
  };
  static Result<std::unique_ptr<InternodeStatus>> open(Terms terms);  // listens

  const std::vector<std::byte>& address() const { return links_->address_blob(); }
  Done connect(std::vector<std::vector<std::byte>> addresses);

  // A collective that this rank has enqueued; never one that is captured.
  Done announce(const CallRecord& record);
  // This rank's communicator has ended so: all others shall hear of it, once.
  void end(const Fault& fault);
  bool has_ended() const { return ended_.load(std::memory_order_acquire); }

  // Tells and hears what is new. True if something moved.
  bool tick(const Standing& own, std::int64_t now_ns);
  // In order, or after end(); waits a little until that is told.
  void leave(const Standing& last);
  int poll_fd() const { return links_->poll_fd(); }

 private:
  explicit InternodeStatus(Terms terms);
  bool judges() const { return terms_.rank == 0; }
  void hear(int peer, std::span<const std::byte> message);
  void hear_report(int peer, std::span<const std::byte> message);
  void report(const Standing& own, std::int64_t now_ns);
  std::vector<CallRecord> take_calls(std::size_t most, std::uint64_t* first);
  void send(int peer, const std::vector<std::byte>& message);
  void send_fault(const Fault& fault, int but);
  void adopt(const Fault& fault);
  void tell_own_fault();
  void detect(std::int64_t now_ns);
  void look_at_rank_0(const Standing& own, std::int64_t now_ns);

  const Terms terms_;
  std::unique_ptr<RemoteLinks> links_;
  std::unique_ptr<FailureDetector> detector_;  // rank 0's

  std::mutex mutex_;
  std::condition_variable told_some_;
  std::vector<CallRecord> calls_;  // announced, not told yet
  std::uint64_t called_ = 0;
  std::optional<Fault> own_fault_;
  std::atomic<bool> ended_{false};  // some fault is known here

  std::int64_t now_ns_ = 0;
  Standing told_, seen_;  // by rank 0; at the last tick
  std::int64_t told_at_ = 0, changed_at_ = 0, gone_at_ = 0;
  std::vector<bool> left_;          // by rank: in order
  std::optional<Standing> rank_0_;  // where rank 0 stood when it left
  bool warned_ = false;
};

}  // namespace rondo::gpu
