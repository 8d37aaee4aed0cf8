// InternodeKernels: a rank on a GPU whose communicator spans several hosts, as far as its calls run
// as kernels over connections: rings and trees as within a host, edges between hosts played by a
// relay (relay.h).
//
// launch() enqueues one kernel on the caller's stream and returns; the rank's order of calls is the
// caller's business (host_proxy.h). A thread of the rank moves what leaves the host, tells rank 0
// how far the rank is, and hears what ends all (internode_status.h). It spins while slots move,
// then sleeps on its sockets: for 50 microseconds at a time while a kernel of the rank runs and for
// 5 ms after, else for a millisecond, woken by plain calls; a graph's replay may so wait for that
// long. Guarantees: whatever ends one rank ends the kernels of all; no wait outlasts an abort.
// Cost: a thread, pinned slots for each connection that leaves the host, a TCP connection for each
// channel of it.
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/gpu.h"
#include "base/result.h"
#include "base/thread.h"
#include "collectives/gpu/channels/device_connections.h"
#include "collectives/gpu/posted_calls.h"
#include "collectives/gpu/span_plan.h"
#include "collectives/planner/device_plan.h"
#include "collectives/watchdog/internode_status.h"
#include "transport/proxy/relay.h"
#include "transport/socket/deadline.h"

namespace rondo::gpu {

class InternodeKernels {
 public:
  struct Terms {
    int rank = 0, size = 1, device = 0;
    DevicePlanFacts plan;
    std::uint64_t from_bytes = 0;
    double kernel_seconds = 0;  // that a kernel may wait without progress; 0: for ever
    std::array<std::byte, 32> secret{};
    std::function<std::string(int)> name_of;
    std::function<void(Fault)> raise;  // any thread
  };
  // connections: of all ranks of this process. Loads the kernels, listens.
  static Result<std::unique_ptr<InternodeKernels>> open(
      Terms terms, std::shared_ptr<DeviceConnections> connections);
  ~InternodeKernels();
  InternodeKernels(const InternodeKernels&) = delete;
  InternodeKernels& operator=(const InternodeKernels&) = delete;

  std::vector<std::byte> address() const;
  // Everybody's, by rank. Returns when all connections of this rank are open.
  Done connect(std::span<const std::vector<std::byte>> addresses, const net::Deadline& deadline);

  // A collective that is enqueued now, whoever does it.
  Done announce(const CallRecord& record);
  std::optional<DevicePlan> plan(const CallRecord& record) const;
  Done launch(const DevicePlan& plan, const Call& call);
  // The communicator has ended so; from any thread.
  void end(const Fault& fault);
  // A kernel has: its stream is free before rank 0 has said whose fault it is.
  bool gave_up() const;
  bool heard_of_end() const { return status_->has_ended(); }
  // A kernel has not come to its end: its memory stays for ever.
  void leak() { connections_->leak(); }

 private:
  InternodeKernels(Terms terms, std::shared_ptr<DeviceConnections> connections);
  Done open();
  Done open_bell();
  void serve();
  bool step();  // what it throws ends the communicator
  bool try_step();
  bool sleep(bool busy);  // true: the bell was rung
  void wake();
  Standing standing() const;
  void look_at_lines(const Standing& own, std::int64_t now_ns);

  const GpuApi& api_;
  Terms terms_;
  const std::shared_ptr<DeviceConnections> connections_;
  std::unique_ptr<Relay> relay_;
  std::unique_ptr<InternodeStatus> status_;
  Fd bell_;  // an eventfd, rung while the thread sleeps
  std::atomic<bool> sleeps_{false}, stop_{false}, is_open_{false};
  std::int64_t ticked_ns_ = 0, changed_ns_ = 0, ended_ns_ = 0;
  Standing seen_;
  Thread thread_;
};

}  // namespace rondo::gpu
