// SPDX-License-Identifier: Apache-2.0
// Windows: memory that all ranks of a communicator know. Registration is collective: every rank
// receives the address and size of the others' memory. On GPUs a window's handle is the address of
// its record in device memory, which kernels of the device API read
// (collectives/gpu/rank/device_comms.h).
#include <cstring>
#include <map>
#include <mutex>
#include <shared_mutex>

#include "api/arguments.h"
#include "api/comm.h"
#include "api/errors.h"
#include "api/export.h"
#include "api/group.h"
#include "collectives/context/gpu_rank.h"

namespace rondo::api {

HandleTable<Registration>& windows() {
  static auto& table = *new HandleTable<Registration>(HandleKind::kWindow);
  return table;
}

namespace {

struct Records {
  std::shared_mutex mutex;
  std::map<void*, void*> handles;  // by address
};
Records& records() {
  static auto& all = *new Records;
  return all;
}

// Address of the window's record, its handle for the program; null: kernels have none.
void* record_of(const Communicator& owner, int number) {
  gpu::GpuRank* const rank = gpu_rank_of(owner);
  gpu::DeviceApi* const kernels = rank == nullptr ? nullptr : rank->device_api();
  return kernels == nullptr ? nullptr : kernels->record_of(number);
}

}  // namespace

// Later windows may have the same address.
void forget_record(void* record, const void* handle) {
  const std::unique_lock lock(records().mutex);
  const auto found = records().handles.find(record);
  if (found != records().handles.end() && found->second == handle) records().handles.erase(found);
}

void* handle_of_window(void* window) {
  const std::shared_lock lock(records().mutex);
  const auto found = records().handles.find(window);
  return found == records().handles.end() ? window : found->second;
}

Result<HandleTable<Registration>::Pin> find_any_window(ncclWindow_t window, const char* function) {
  RONDO_CHECK_OK(not_null(window, function, "win"));
  auto found = windows().pin(handle_of_window(window));
  if (found.state == HandleState::kAlive) return std::move(found.pin);
  return fail(StatusCode::kInvalidArgument, "{} : {} is no window", function, fmt::ptr(window));
}

Result<HandleTable<Registration>::Pin> find_window(ncclComm_t comm, ncclWindow_t window,
                                                   const char* function) {
  RONDO_CHECK_OK(not_null(window, function, "win"));
  auto found = windows().pin(handle_of_window(window));
  if (found.state != HandleState::kAlive || found.pin->comm != comm)
    return fail(StatusCode::kInvalidArgument, "{} : {} is no window of comm {}", function,
                fmt::ptr(window), fmt::ptr(comm));
  return std::move(found.pin);
}

}  // namespace rondo::api

using namespace rondo;
using namespace rondo::api;

namespace {

constexpr int kAllFlags =
    NCCL_WIN_COLL_SYMMETRIC | NCCL_WIN_STRICT_ORDERING | NCCL_WIN_GIN_ONLY | NCCL_WIN_CFT_COUNTED;

Result<CommPin> check_registration(ncclComm_t comm, const void* buffer, std::size_t bytes,
                                   const ncclWindow_t* out, int flags) {
  constexpr const char* kFunction = "CommWindowRegister";
  RONDO_TRY(CommPin pin, find_usable_comm(comm, kFunction));
  RONDO_CHECK_OK(not_null(buffer, kFunction, "buff"));
  RONDO_CHECK_OK(not_null(out, kFunction, "win"));
  RONDO_CHECK_OK(bytes_in_range(bytes, kFunction, "size"));
  if ((flags & ~kAllFlags) != 0)
    return fail(StatusCode::kInvalidArgument, "{} : invalid flags {:#x}", kFunction, flags);
  return pin;
}

Status deregister(ncclComm_t comm, ncclWindow_t window) {
  constexpr const char* kFunction = "CommWindowDeregister";
  RONDO_TRY(CommPin pin, find_comm(comm, kFunction));
  if (window == nullptr) return ok_status();
  {
    RONDO_TRY(auto found, find_window(comm, window, kFunction));
    Turn turn;
    const auto wait_turn = [&] {
      if (in_group()) return;  // the group's calls run at its end
      turn = Turn(pin->order);
      turn.wait();
    };
    if (pin->engine() != nullptr) pin->engine()->deregister_window(found->number, wait_turn);
  }
  void* const handle = handle_of_window(window);
  if (pin->remove_registration(handle)) forget_registrations({handle});
  return ok_status();
}

Status user_pointer(ncclComm_t comm, ncclWindow_t window, void** out) {
  constexpr const char* kFunction = "WinGetUserPtr";
  RONDO_TRY(CommPin pin, find_comm(comm, kFunction));
  RONDO_TRY(auto found, find_window(comm, window, kFunction));
  RONDO_CHECK_OK(not_null(out, kFunction, "outUserPtr"));
  *out = found->buffer;
  return ok_status();
}

}  // namespace

RONDO_API_FUNCTION(ncclResult_t, CommWindowRegister, ncclComm_t comm, void* buff, size_t size,
                   ncclWindow_t* win, int winFlags) {
  RONDO_ENTER(CommWindowRegister);
  auto pin = check_registration(comm, buff, size, win, winFlags);
  if (!pin.ok()) return note_in_group(report(pin.error()));
  *win = nullptr;
  SetUp work;
  Comm* owner = pin->get();
  work.blocking = owner->blocking();
  work.parent = std::move(*pin);
  work.run = [=]() -> Status {
    const bool symmetric = (winFlags & NCCL_WIN_COLL_SYMMETRIC) != 0;
    RONDO_TRY(const int number, owner->engine()->register_window(buff, size, symmetric));
    void* const record = record_of(*owner->engine(), number);
    void* handle = windows().insert(std::unique_ptr<Registration>(
        new Registration{comm, buff, size, number, owner->register_block(buff, size), record}));
    if (handle == nullptr)
      return fail(StatusCode::kInvalidUsage, "CommWindowRegister : too many windows are alive");
    owner->add_registration(handle);
    if (record != nullptr) {
      const std::unique_lock lock(records().mutex);
      records().handles[record] = handle;
    }
    *win = static_cast<ncclWindow_t>(record != nullptr ? record : handle);
    return ok_status();
  };
  work.cancel = [] {};
  return submit_set_up(std::move(work));
}
RONDO_CATCH

RONDO_API_FUNCTION(ncclResult_t, CommWindowDeregister, ncclComm_t comm, ncclWindow_t win) {
  RONDO_ENTER(CommWindowDeregister);
  return report(deregister(comm, win));
}
RONDO_CATCH

RONDO_API_FUNCTION(ncclResult_t, WinGetUserPtr, ncclComm_t comm, ncclWindow_t win,
                   void** outUserPtr) {
  RONDO_ENTER(WinGetUserPtr);
  return report(user_pointer(comm, win, outUserPtr));
}
RONDO_CATCH
