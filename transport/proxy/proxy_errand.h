// SPDX-License-Identifier: Apache-2.0
// ProxyErrands: runs a function of another thread on a rank's progress thread, because only that
// thread can use the rank's links and memory keys.
//
// An errand is a step that is called at each turn, also while another task waits, until it returns
// true; the step must not wait. Guarantees: one errand at a time; no thread calls the step after
// run() has returned; if the progress thread does not run, run() calls the step itself. Cost: one
// load per turn without an errand.
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
#include "transport/socket/socket.h"

namespace rondo::gpu {

class ProxyErrands final : public ProxyTask {
 public:
  using Step = std::function<Result<bool>()>;  // true: finished

  explicit ProxyErrands(Proxy& proxy) : proxy_(proxy) {}

  // From any thread but the proxy's. kTimeout: the deadline has passed; kInvalidUsage: aborted.
  // `what` completes "timed out while ...".
  Status run(const Step& step, const net::Deadline& deadline, const char* what);

  bool progress() override;
  bool is_busy() const override { return waiting_.load(std::memory_order_relaxed); }

 private:
  bool advance();  // called with mutex_ held

  Proxy& proxy_;
  std::mutex one_at_a_time_;
  std::mutex mutex_;  // guards the members below
  std::condition_variable over_;
  const Step* step_ = nullptr;
  std::optional<Status> result_;
  std::atomic<bool> waiting_{false};
};

}  // namespace rondo::gpu
