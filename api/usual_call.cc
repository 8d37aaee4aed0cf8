// SPDX-License-Identifier: Apache-2.0
#include "api/usual_call.h"

#include "api/errors.h"
#include "api/group.h"
#include "base/gpu.h"

namespace rondo::api {
namespace {

// Up to this count, count * element size * number of ranks cannot overflow a size_t.
constexpr std::size_t kUsualCount = std::size_t{1} << 36;

bool is_usual(const Comm& comm) {
  return comm.engine() != nullptr && comm.is_plain() &&
         !comm.revoked.load(std::memory_order_relaxed) &&
         !comm.finalized.load(std::memory_order_relaxed) &&
         !comm.suspended.load(std::memory_order_relaxed);
}

// True if the buffers of an all-to-all may overlap: an error, and the long path reports it.
bool overlap(const Comm& comm, const CollectiveArguments& arguments) {
  const auto send = reinterpret_cast<std::uintptr_t>(arguments.send);
  const auto receive = reinterpret_cast<std::uintptr_t>(arguments.receive);
  const std::size_t element = size_of(static_cast<DataType>(arguments.type));
  const std::size_t bytes = arguments.count * element * static_cast<std::size_t>(comm.size);
  return (send > receive ? send - receive : receive - send) < bytes;
}

bool fill_usual(const Comm& comm, const CollectiveTraits& traits,
                const CollectiveArguments& arguments, Call* call) {
  const auto type = static_cast<unsigned>(arguments.type);
  const auto op = static_cast<unsigned>(arguments.op);
  if (type >= ncclNumTypes || arguments.count - 1 >= kUsualCount) return false;
  if (arguments.send == nullptr || arguments.receive == nullptr) return false;
  if (traits.which == Collective::kAllToAll && overlap(comm, arguments)) return false;
  if (traits.reduces) {
    if (op >= ncclNumOps) return false;
    call->record.op = static_cast<RedOp>(op);
  }
  if (traits.rooted) {
    if (static_cast<unsigned>(arguments.root) >= static_cast<unsigned>(comm.size)) return false;
    call->record.root = arguments.root;
  }
  call->record.collective = traits.which;
  call->record.type = static_cast<DataType>(type);
  call->record.count = arguments.count;
  call->send = arguments.send;
  call->receive = arguments.receive;
  return true;
}

// fill(comm, &call): whether the call is a usual one; it then has its arguments.
template <class Fill>
bool run_usual(ncclComm_t handle, ncclResult_t* result, const Fill& fill) {
  if (in_group() || gpu_api() != nullptr) return false;
  const auto found = comms().pin_here(handle);
  if (found.state != HandleState::kAlive) return false;
  Comm& comm = *found.pin;
  Call call;
  if (!is_usual(comm) || !fill(comm, &call)) return false;
  Turn turn(comm.order);
  turn.wait();
  const Status done = comm.engine()->run_here(call);
  turn.finish();
  *result = done.ok() ? ncclSuccess : remember(done.error());
  return true;
}

}  // namespace

bool run_usual_call(const CollectiveTraits& traits, const CollectiveArguments& arguments,
                    ncclComm_t handle, ncclResult_t* result) {
  return run_usual(handle, result, [&](const Comm& comm, Call* call) {
    return fill_usual(comm, traits, arguments, call);
  });
}

bool run_usual_barrier(ncclComm_t handle, ncclResult_t* result) {
  return run_usual(handle, result, [](const Comm&, Call* call) {
    call->record.collective = Collective::kBarrier;
    return true;
  });
}

}  // namespace rondo::api
