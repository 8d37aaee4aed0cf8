// SPDX-License-Identifier: Apache-2.0
// ProcessWatch: the thread that watches a team of processes. It reports to a FailureDetector which
// ranks have died or left, the progress of kernels and what streams wait for, and it checks for
// faults and aborts.
//
// If that ends the team, it releases every flag that this process's streams wait for and stops its
// kernels. It also answers memory requests (process_meeting.h), and makes CUDA calls only for
// these. Guarantees: if the only process that could complete a wait dies, the wait ends after 100
// ms without progress; a communicator's timeout for devices ends all other waits. Cost: a thread
// that checks every 20 ms.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/thread.h"
#include "collectives/faults/failure_detector.h"
#include "kernels/cuda/shared_args.h"

namespace rondo::gpu {

class CallAnnouncements;
struct ProcessContext;

class ProcessWatch {
 public:
  ProcessWatch(ProcessContext& context, const CallAnnouncements& announcements);

  Status start();
  void look_soon();  // call after something has ended
  void stop();
  void forget();  // in a forked child: the thread is the parent's

 private:
  void run();
  void serve_memory(int milliseconds);
  void look();
  void report_who_is_gone();
  void report_progress();
  void show_wait();  // for status queries
  std::uint64_t traffic() const;
  template <class Each>
  void for_each_wait(const Each& each) const;
  bool is_in_call() const;
  bool is_cut_off() const;
  std::vector<int> awaited_in_call() const;  // ranks that have not arrived, or made no progress
  std::vector<int> awaited_in_messages() const;
  std::optional<Wait> wait_on_streams() const;
  const cuda::CallDescriptor& descriptor_of(int rank) const;  // of the call that it is in
  std::string call_in_words() const;
  void release_flags();

  ProcessContext& context_;
  const CallAnnouncements& announcements_;
  FailureDetector detector_;
  std::atomic<bool> stop_{false};
  bool unmaps_ = false;  // some blocks of others have ended, but may be in use
  Fd wake_;
  Thread thread_;
};

}  // namespace rondo::gpu
