// HostedService: the thread of a HostProxy, which does on the host what its stream asks for.
//
// Guarantees: a call that fails ends the rank, with the fault of the host's communicator; streams
// go on then, whatever they wait for. Cost: a thread, which spins for 2,000 looks and then naps
// between calls.
#pragma once

#include <atomic>
#include <functional>
#include <memory>

#include "base/result.h"
#include "base/thread.h"
#include "collectives/communicator/communicator.h"
#include "collectives/gpu/staging/call_slots.h"
#include "collectives/gpu/staging/internode_kernels.h"
#include "collectives/gpu/staging/pinned_staging.h"

namespace rondo::gpu {

class HostedService {
 public:
  struct Parts {
    Communicator& on_host;
    CallSlots& slots;
    PinnedStaging& staging;
    std::function<void(Fault)> raise;
    const std::unique_ptr<InternodeKernels>& kernels;  // null: the host does all calls
  };
  explicit HostedService(Parts parts) : parts_(std::move(parts)) {}

  Done start();
  void stop();    // and waits for the end of its thread
  void forget();  // in a forked child: the thread is the parent's
  bool runs() const { return thread_.joinable(); }

 private:
  void serve();
  void run_call(std::uint32_t number);
  Done run_step(const HostedCall& call, const CallSteps& steps, std::uint64_t step);
  bool hears_of_end(Status status) const;
  void fail_call(const Error& error);
  void release();

  const Parts parts_;
  std::atomic<bool> stop_{false};
  Thread thread_;
};

}  // namespace rondo::gpu
