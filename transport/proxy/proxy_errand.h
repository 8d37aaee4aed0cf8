// ProxyErrands: what another thread wants done on a rank's progress thread, whose links and memory
// keys are that thread's alone.
//
// An errand is a step that is called at each turn, also while another task waits, until it says
// that it is over; it never waits itself. Guarantees: one at a time; the step is called by nobody
// any more once run() has returned; where no thread runs, by run() itself. Cost: a load a turn
// where there is none.
//
//   ProxyErrands errands(proxy);  proxy.add(errands);
//   RONDO_CHECK_OK(errands.run([&]() -> Result<bool> { return links_are_open(); }, deadline));
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>

#include "transport/proxy/proxy.h"
#include "transport/socket/deadline.h"

namespace rondo::gpu {

class ProxyErrands final : public ProxyTask {
 public:
  using Step = std::function<Result<bool>()>;  // true: it is over

  explicit ProxyErrands(Proxy& proxy) : proxy_(proxy) {}

  // Any thread but the proxy's. kTimeout, kInvalidUsage: the deadline's end; `what` completes
  // "timed out while ...".
  Status run(const Step& step, const net::Deadline& deadline, const char* what);

  bool progress() override;
  bool is_busy() const override { return waiting_.load(std::memory_order_relaxed); }

 private:
  bool advance();  // with the mutex

  Proxy& proxy_;
  std::mutex one_at_a_time_;
  std::mutex mutex_;  // of what follows
  std::condition_variable over_;
  const Step* step_ = nullptr;
  std::optional<Status> result_;
  std::atomic<bool> waiting_{false};
};

}  // namespace rondo::gpu
