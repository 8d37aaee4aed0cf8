// SPDX-License-Identifier: Apache-2.0
#include "collectives/watch/events.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <string_view>
#include <type_traits>

#include "base/guard.h"
#include "base/log.h"
#include "base/process.h"
#include "base/types.h"
#include "collectives/profiler/describe.h"
#include "collectives/watch/watch.h"

namespace rondo::watch {
namespace {

namespace abi = profiler::abi;

constexpr std::uint64_t kAsked = abi::kColl | abi::kP2p | abi::kProxyOp | abi::kProxyStep |
                                 abi::kKernelCh | abi::kGroupApi | abi::kCollApi | abi::kP2pApi |
                                 abi::kCeColl;

// ---- handles ----

enum Kind : unsigned {
  kNothing = 1,  // an event without a meaning here
  kCall,         // of the API
  kGroup,        // its number: of a group of calls
  kOperation,    // a Coll or P2p
  kWhole,        // one whose stop is its end
  kKernel,
  kTransfer,  // its number: of the operation, and of the transfer
  kStep,
};

struct Handle {
  Kind kind = kNothing;
  unsigned place = 0, generation = 0;
  std::uint64_t operation = 0;
  int transfer = -1;
};

// From the top: kind 4 bits, generation 8, place 12, transfer + 1 9 (of 10), operation 30.
constexpr int kTransferBits = 10, kOperationBits = 30;
constexpr std::uint64_t kOperationMask = (std::uint64_t{1} << kOperationBits) - 1;

void* encode(const Handle& handle) {
  std::uint64_t word = handle.kind;
  word = word << 8 | (handle.generation & 0xff);
  word = word << 12 | (handle.place & 0xfff);
  word = word << kTransferBits | static_cast<std::uint64_t>(handle.transfer + 1);
  word = word << kOperationBits | (handle.operation & kOperationMask);
  return reinterpret_cast<void*>(word);
}

Handle decode(const void* from) {
  auto word = reinterpret_cast<std::uint64_t>(from);
  Handle handle;
  handle.operation = word & kOperationMask;
  word >>= kOperationBits;
  handle.transfer = static_cast<int>(word & ((1u << kTransferBits) - 1)) - 1;
  word >>= kTransferBits;
  handle.place = word & 0xfff;
  handle.generation = word >> 12 & 0xff;
  handle.kind = static_cast<Kind>(word >> 20);
  return handle;
}

WatchedComm* comm_of(const Handle& handle) {
  Watch* const watch = Watch::current();
  Seat* const seat = watch == nullptr ? nullptr : watch->seat(handle.place, handle.generation);
  return seat == nullptr ? nullptr : seat->comm.load(std::memory_order_acquire);
}
Seat* seat_of(void* context) {
  Watch* const watch = Watch::current();
  return watch == nullptr ? nullptr : watch->own(context);
}

// ---- what a descriptor tells ----

Collective collective_of(std::uint8_t number) {
  for (int i = 1; i < kCollectives; ++i)
    if (profiler::name_of(static_cast<Collective>(i)).number == number)
      return static_cast<Collective>(i);
  return Collective::kNone;
}
Collective collective_of(const char* name) {
  if (name == nullptr) return Collective::kNone;
  for (int i = 1; i < kCollectives; ++i)
    if (std::string_view(profiler::name_of(static_cast<Collective>(i)).name) == name)
      return static_cast<Collective>(i);
  return std::string_view(name) == "AlltoAll" ? Collective::kAllToAll : Collective::kNone;
}

DataType type_of(std::uint8_t number) {
  return number < kDataTypes ? static_cast<DataType>(number) : DataType::kUint8;
}
// NCCL calls ncclUint8 "Unknown".
DataType type_of(const char* name) {
  for (int i = 0; name != nullptr && i < kDataTypes; ++i)
    if (std::string_view(profiler::name_of(static_cast<DataType>(i)).name) == name)
      return static_cast<DataType>(i);
  return DataType::kUint8;
}

// Equal on all ranks: only a rooted call has a root.
CallRecord call_of(Collective which, DataType type, std::size_t count, int root) {
  return foreign_call(which, type, count, is_rooted(which) ? root : -1);
}

// Messages of MPI (MPI_Send, MPI_Recv) have no kernel, and match by tags.
constexpr std::string_view kOfMpi = "MPI_";
bool is_of_mpi(const char* function) {
  return function != nullptr && std::string_view(function).starts_with(kOfMpi);
}
bool is_of_mpi(std::uint8_t) { return false; }

// One-sided operations have other names than Rondo's.
template <class Message>
CallRecord message_of(const Message& message) {
  Collective which = collective_of(message.function);
  if constexpr (std::is_pointer_v<decltype(message.function)>)
    if (is_of_mpi(message.function)) which = collective_of(message.function + kOfMpi.size());
  return foreign_call(which >= Collective::kSend ? which : Collective::kPut, type_of(message.type),
                      message.count, message.peer);
}

class Events {
 public:
  Events(Seat& seat, WatchedComm& comm) : seat_(seat), comm_(comm) {}

  template <class Descriptor>
  Handle start(const Descriptor& event) {
    if (!comm_.is_known()) identify(event);
    switch (static_cast<std::uint64_t>(event.kind)) {
      case abi::kColl:
        return start_collective(event.coll, event.parent);
      case abi::kP2p:
        return start_message(event.p2p, event.parent);
      case abi::kProxyOp:
        return start_transfer(event.proxy_op, event.parent);
      case abi::kProxyStep:
        return start_step(event.proxy_step, event.parent);
      case abi::kKernelCh:
        return start_kernel(event.parent);
      default:
        break;
    }
    if constexpr (requires { event.coll_api; }) {
      if (event.kind == abi::kGroupApi)
        return make(kGroup, Watch::current()->order().begin_group());
      if (event.kind == abi::kCollApi) return enter(event.coll_api, event.parent);
      if (event.kind == abi::kCeColl) return start_copies(event.coll, event.parent);
    }
    return make(kNothing);
  }

 private:
  Handle make(Kind kind, std::uint64_t operation = 0, int transfer = -1) const {
    return {kind, seat_.place, seat_.generation, operation, transfer};
  }
  // The operation that a parent of this communicator names; 0: none.
  std::uint64_t operation_of(const void* parent) const {
    const Handle handle = decode(parent);
    const bool is_own = parent != nullptr && handle.place == seat_.place &&
                        handle.generation == (seat_.generation & 0xff);
    return is_own && handle.kind != kNothing && handle.kind != kGroup ? handle.operation : 0;
  }

  // Versions 1 and 2 have no events of kernels.
  unsigned channels_of(unsigned channels) const {
    constexpr int kHasKernels = 3;
    return seat_.version < kHasKernels ? 0 : std::max(channels, 1u);
  }

  template <class Descriptor>
  void identify(const Descriptor& event) {
    if constexpr (requires { event.coll.communicator; }) {
      if (event.kind == abi::kColl)
        comm_.identify(event.coll.communicator, event.coll.name, event.rank);
      if (event.kind == abi::kP2p)
        comm_.identify(event.p2p.communicator, event.p2p.name, event.rank);
    }
  }

  // Calls in a graph run when it is launched, empty ones never. A group may begin at another
  // communicator.
  Handle enter(const abi::CollApi5& api, const void* parent) {
    const Collective which = collective_of(api.function);
    if (api.captured || api.count == 0 || which == Collective::kNone) return make(kNothing);
    const Handle in = decode(parent);
    const bool is_in_group = parent != nullptr && in.kind == kGroup;
    const auto group = is_in_group ? static_cast<std::uint32_t>(in.operation) : 0;
    const CallRecord call = call_of(which, type_of(api.type), api.count, api.root);
    return make(kCall, comm_.enter(call, -1, group));
  }

  // That of the call of the API, or a new one.
  template <class Coll>
  std::uint64_t operation_for(const Coll& coll, const void* parent) {
    if (const std::uint64_t entered = operation_of(parent)) return entered;
    const Collective which = collective_of(coll.function);
    return comm_.enter(call_of(which, type_of(coll.type), coll.count, coll.root));
  }

  // By copy engines: the event ends when they are enqueued, and none tells when they are done.
  template <class Coll>
  Handle start_copies(const Coll& coll, const void* parent) {
    const std::uint64_t operation = operation_for(coll, parent);
    comm_.enqueue_unseen(operation);
    return make(kOperation, operation);
  }

  // Without warps it is a call on host memory, whose event ends with it.
  template <class Coll>
  Handle start_collective(const Coll& coll, const void* parent) {
    constexpr int kHasCalls = 5;  // without one only in a launch of a graph
    const bool on_host = coll.warps == 0;
    if (operation_of(parent) == 0 && seat_.version >= kHasCalls && !on_host) comm_.show_graphs();
    const std::uint64_t operation = operation_for(coll, parent);
    comm_.enqueue(operation, channels_of(coll.channels));
    if (!on_host) return make(kOperation, operation);
    comm_.begin_kernel(operation);
    seat_.ends_with_stop = true;
    return make(kWhole, operation);
  }

  // A collective that is made of messages has ended once one of these has begun.
  template <class P2p>
  Handle start_message(const P2p& message, const void* parent) {
    if (const std::uint64_t call = operation_of(parent)) comm_.enqueue_unseen(call);
    const std::uint64_t operation = comm_.enter(message_of(message), message.peer);
    unsigned channels = 1;
    if constexpr (requires { message.channels; }) channels = message.channels;
    comm_.enqueue(operation, channels_of(channels));
    if (is_of_mpi(message.function)) comm_.match_by_tags();
    if (!seat_.ends_with_stop && !is_of_mpi(message.function)) return make(kOperation, operation);
    comm_.begin_kernel(operation);
    return make(kWhole, operation);
  }

  Handle start_transfer(const abi::ProxyOp& op, const void* parent) {
    const std::uint64_t operation = op.pid == getpid() ? operation_of(parent) : 0;
    if (operation == 0) return make(kNothing);
    return make(kTransfer, operation, comm_.begin_transfer(operation, op.peer, op.is_send != 0));
  }

  Handle start_step(const abi::ProxyStep& step, const void* parent) {
    const Handle transfer = decode(parent);
    if (operation_of(parent) == 0 || transfer.kind != kTransfer) return make(kNothing);
    comm_.show_step(transfer.transfer, static_cast<std::uint32_t>(step.step));
    return make(kStep, transfer.operation, transfer.transfer);
  }

  Handle start_kernel(const void* parent) {
    const std::uint64_t operation = operation_of(parent);
    if (operation == 0) return make(kNothing);
    comm_.begin_kernel(operation);
    return make(kKernel, operation);
  }

  Seat& seat_;
  WatchedComm& comm_;
};

Status take_seat(const InitCall& call) {
  RONDO_TRY(Seat* const seat, Watch::instance().take({.hash = call.hash,
                                                      .name = call.name == nullptr ? "" : call.name,
                                                      .hosts = call.hosts,
                                                      .ranks = call.ranks,
                                                      .rank = call.rank}));
  seat->version = call.version;
  seat->ends_with_stop = false;
  *call.context = Watch::context_of(*seat);
  if (call.mask != nullptr) std::atomic_ref<int>(*call.mask).fetch_or(static_cast<int>(kAsked));
  return ok_status();
}

}  // namespace

int init(const InitCall& call) noexcept {
  static int nobody = 0;  // a context for which nothing is recorded
  if (call.context != nullptr) *call.context = &nobody;
  const Status taken = guarded("the watch of a communicator", [&] { return take_seat(call); });
  if (taken.ok()) return 0;
  static std::atomic<bool> reported{false};
  if (!reported.exchange(true))
    (void)guarded("a notice", [&] {
      notice(taken.error().text + "; the job goes on, rondo ps does not show all of it");
      return ok_status();
    });
  return 0;
}

template <class Descriptor>
int start_event(void* context, void** handle, Descriptor* event) noexcept {
  if (handle == nullptr || event == nullptr) return 0;
  *handle = encode({});
  Seat* const seat = seat_of(context);
  WatchedComm* const comm = seat == nullptr ? nullptr : seat->comm.load(std::memory_order_acquire);
  if (comm != nullptr) *handle = encode(Events(*seat, *comm).start(*event));
  return 0;
}
template int start_event(void*, void**, abi::Descriptor1*) noexcept;
template int start_event(void*, void**, abi::Descriptor2*) noexcept;
template int start_event(void*, void**, abi::Descriptor3*) noexcept;
template int start_event(void*, void**, abi::Descriptor4*) noexcept;
template int start_event(void*, void**, abi::Descriptor5*) noexcept;

int stop_event(void* event) noexcept {
  const Handle handle = decode(event);
  Watch* const watch = Watch::current();
  if (handle.kind == kGroup && watch != nullptr)
    watch->order().end_group(static_cast<std::uint32_t>(handle.operation));
  if (handle.kind < kOperation) return 0;
  WatchedComm* const comm = comm_of(handle);
  if (comm == nullptr) return 0;
  if (handle.kind == kOperation) comm->end_if_silent(handle.operation);
  if (handle.kind == kWhole) comm->end(handle.operation);
  if (handle.kind == kKernel) comm->end_kernel(handle.operation);
  if (handle.kind == kTransfer) comm->end_transfer(handle.transfer, handle.operation);
  return 0;
}

int record_state(void* event, int state, void*) noexcept {
  const Handle handle = decode(event);
  if (handle.kind != kStep) return 0;
  if (WatchedComm* const comm = comm_of(handle)) comm->show_state(handle.transfer, state);
  return 0;
}

int finish(void* context) noexcept {
  Seat* const seat = seat_of(context);
  if (seat != nullptr)
    (void)guarded("the end of a watch",
                  [&] { return Watch::instance().leave(*seat), ok_status(); });
  return 0;
}

}  // namespace rondo::watch
