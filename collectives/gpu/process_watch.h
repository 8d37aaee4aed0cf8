// ProcessWatch: the thread that looks after a team of processes: peers that died or left, ranks
// that never come, faults, abort.
//
// Then it releases every flag that this process's streams await, and ends its kernels. On the
// leader it also answers those who ask for memory (leader_memory.h), and makes no CUDA call but for
// that. Guarantees: what nobody can end any more ends within moments of the death of who could; a
// communicator's timeout for devices ends the rest. Cost: a thread that looks every 20 ms.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/thread.h"
#include "collectives/gpu/call_announcements.h"
#include "collectives/gpu/process_context.h"
#include "collectives/watchdog/fault_texts.h"

namespace rondo::gpu {

class ProcessWatch {
 public:
  ProcessWatch(ProcessContext& context, const CallAnnouncements& announcements)
      : context_(context), announcements_(announcements) {}

  Done start();
  void look_soon();  // something ended
  void stop();
  void forget();  // in a forked child: the thread is the parent's

 private:
  // What this process waits for, as the flags tell.
  struct Waiting {
    bool in_call = false;
    std::vector<int> ranks;  // that have not come, or not gone on
    bool message = false;
  };
  void run();
  void serve_memory(int milliseconds);
  void look(std::int64_t passed_ns);
  std::uint64_t fingerprint() const;
  Waiting waiting() const;
  void check_waiting(const Waiting& waiting);
  // Blames the first of the ranks whose process has ended or has left the team, if it is still
  // waited for: it may have done its part in between.
  bool blame_the_gone(const std::vector<int>& ranks, int waiting,
                      const std::function<std::string()>& call,
                      const std::function<std::vector<int>()>& still_waited_for);
  void blame_gone(int rank, fault_texts::Parting parting, int waiting, const std::string& call);
  bool has_left(int rank) const;
  void look_at_kernels();
  void check_launch(int rank);
  void warn(const std::string& whom, const std::string& call);
  std::string call_in_words() const;
  void release_flags();

  ProcessContext& context_;
  const CallAnnouncements& announcements_;
  std::int64_t stalled_ns_ = 0;
  std::uint64_t seen_ = 0;
  bool warned_ = false;
  std::atomic<bool> stop_{false};
  Fd wake_;
  Thread thread_;
};

}  // namespace rondo::gpu
