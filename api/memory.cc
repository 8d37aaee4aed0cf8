// SPDX-License-Identifier: Apache-2.0
// ncclMemAlloc allocates on the current CUDA device or, on the host, in this process's shared
// arena: peers access both without a copy. Registration is a hint. On the host it costs nothing,
// because the arena is already shared. GPU memory is mapped by the processes that access it in
// place: at registration if each process has GPUs of its own, otherwise at the first use.
#include "api/arguments.h"
#include "api/comm.h"
#include "api/errors.h"
#include "api/export.h"
#include "transport/cuda/deferred_free.h"
#include "transport/cuda/device.h"
#include "transport/memory/memory_registry.h"
#include "transport/shm/arena.h"

namespace rondo::api {

HandleTable<Registration>& registrations() {
  static auto& table = *new HandleTable<Registration>(HandleKind::kRegistration);
  return table;
}

Registration::~Registration() {
  if (block != 0) gpu::memory_registry().remove(block);
}

void forget_registrations(const std::vector<void*>& handles) {
  HandleState state;
  for (void* handle : handles) {
    if (registrations().remove(handle, &state)) continue;
    const auto window = windows().remove(handle, &state);
    if (window && window->record != nullptr) forget_record(window->record, handle);
  }
}

}  // namespace rondo::api

using namespace rondo;
using namespace rondo::api;

namespace {

Status allocate_in_arena(void** out, std::size_t bytes) {
  RONDO_TRY(auto arena, shm::Arena::of_process());
  RONDO_TRY(*out, arena->allocate(bytes));
  return ok_status();
}

Status allocate_on_host(void** out, std::size_t bytes) {
  RONDO_CHECK_OK(not_null(out, "MemAllocHost", "ptr"));
  *out = nullptr;
  if (bytes > 0) RONDO_CHECK_OK(bytes_in_range(bytes, "MemAllocHost", "size"));
  return allocate_in_arena(out, bytes);
}

Status allocate(void** out, std::size_t bytes) {
  RONDO_CHECK_OK(not_null(out, "MemAlloc", "ptr"));
  *out = nullptr;
  if (bytes > 0) RONDO_CHECK_OK(bytes_in_range(bytes, "MemAlloc", "size"));
  RONDO_TRY(const int device, gpu::device_for_new_rank());
  if (device != gpu::kHostRank) {
    gpu::free_deferred();
    RONDO_TRY(*out, gpu::memory_registry().allocate(bytes, device));
    return ok_status();
  }
  return allocate_in_arena(out, bytes);
}

Status free_memory(void* pointer) {
  if (pointer == nullptr) return ok_status();
  if (Status freed; gpu::memory_registry().free(pointer, &freed)) {
    gpu::free_deferred();
    return freed;
  }
  RONDO_TRY(auto arena, shm::Arena::of_process());
  return arena->free(pointer);
}

Status register_buffer(ncclComm_t comm, void* buffer, std::size_t bytes, void** out) {
  constexpr const char* kFunction = "CommRegister";
  RONDO_TRY(CommPin pin, find_comm(comm, kFunction));
  RONDO_CHECK_OK(not_null(buffer, kFunction, "buff"));
  RONDO_CHECK_OK(not_null(out, kFunction, "handle"));
  RONDO_CHECK_OK(bytes_in_range(bytes, kFunction, "size"));
  void* handle = registrations().insert(std::unique_ptr<Registration>(
      new Registration{comm, buffer, bytes, -1, pin->register_block(buffer, bytes)}));
  if (handle == nullptr)
    return fail(StatusCode::kInvalidUsage, "{} : too many registrations are alive", kFunction);
  pin->add_registration(handle);
  *out = handle;
  return ok_status();
}

Status deregister_buffer(ncclComm_t comm, void* handle) {
  constexpr const char* kFunction = "CommDeregister";
  RONDO_TRY(CommPin pin, find_comm(comm, kFunction));
  RONDO_CHECK_OK(not_null(handle, kFunction, "handle"));
  void* const known = handle_of_window(handle);  // torch also passes windows to this function
  if (!pin->remove_registration(known))
    return fail(StatusCode::kInvalidArgument, "{} : {} is no registration of comm {}", kFunction,
                handle, fmt::ptr(comm));
  forget_registrations({known});
  return ok_status();
}

}  // namespace

RONDO_API_FUNCTION(ncclResult_t, MemAlloc, void** ptr, size_t size) {
  RONDO_ENTER(MemAlloc);
  return report(allocate(ptr, size));
}
RONDO_CATCH

RONDO_FUNCTION(ncclResult_t, rondoMemAllocHost, void** ptr, size_t size) {
  return report(allocate_on_host(ptr, size));
}
RONDO_CATCH

RONDO_API_FUNCTION(ncclResult_t, MemFree, void* ptr) {
  RONDO_ENTER(MemFree);
  return report(free_memory(ptr));
}
RONDO_CATCH

RONDO_API_FUNCTION(ncclResult_t, CommRegister, const ncclComm_t comm, void* buff, size_t size,
                   void** handle) {
  RONDO_ENTER(CommRegister);
  return report(register_buffer(comm, buff, size, handle));
}
RONDO_CATCH

RONDO_API_FUNCTION(ncclResult_t, CommDeregister, const ncclComm_t comm, void* handle) {
  RONDO_ENTER(CommDeregister);
  return report(deregister_buffer(comm, handle));
}
RONDO_CATCH
