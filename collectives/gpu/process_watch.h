// ProcessWatch: the thread that looks after a team of processes: it tells a FailureDetector who has
// died or left, how far kernels are and what streams wait for, and looks for faults and abort.
//
// Where that ends the team it releases every flag that this process's streams await, and ends its
// kernels. It also answers those who ask for memory (memory_exchange.h), and makes no CUDA call but
// for that. Guarantees: what nobody can end any more ends within moments of the death
// of who could; a communicator's timeout for devices ends the rest. Cost: a thread that looks every
// 20 ms.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/thread.h"
#include "collectives/gpu/call_announcements.h"
#include "collectives/gpu/in_place_calls.h"
#include "collectives/gpu/process_context.h"
#include "collectives/watchdog/failure_detector.h"

namespace rondo::gpu {

class ProcessWatch {
 public:
  ProcessWatch(ProcessContext& context, const CallAnnouncements& announcements,
               InPlaceCalls& in_place);

  Status start();
  void look_soon();  // something ended
  void stop();
  void forget();  // in a forked child: the thread is the parent's

 private:
  void run();
  void serve_memory(int milliseconds);
  void look();
  void blame(StatusCode status, int culprit, const std::string& text);
  void tell_who_is_gone();
  void tell_progress();
  std::uint64_t traffic() const;
  template <class Each>
  void for_each_message_wait(const Each& each) const;
  bool is_in_call() const;
  bool is_cut_off() const;
  std::vector<int> awaited_in_call() const;  // ranks that have not come, or not gone on
  std::vector<int> awaited_in_messages() const;
  std::optional<Wait> wait_on_streams() const;
  const cuda::CallDescriptor& descriptor_of(int rank) const;  // of the call that it is in
  std::string call_in_words() const;
  void release_flags();

  ProcessContext& context_;
  const CallAnnouncements& announcements_;
  InPlaceCalls& in_place_;
  FailureDetector detector_;
  std::atomic<bool> stop_{false};
  Fd wake_;
  Thread thread_;
};

}  // namespace rondo::gpu
