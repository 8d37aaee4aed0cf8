// SPDX-License-Identifier: Apache-2.0
#include "tests/simt/device/table.h"

#include <array>
#include <atomic>
#include <tuple>
#include <type_traits>
#include <utility>

#include "tests/simt/device/calls.h"
#include "tests/simt/device/registers.h"
#include "tests/simt/device/thread_calls.h"

namespace rondo::simt {
namespace {

using Finder = const cuda::KernelEntry& (*)(int kernel);
std::atomic<Finder> find_kernel{nullptr};

// Calls of the table keep no error beyond the one that they return; runtime calls may.
GpuError peek_error() { return calls::last_error(); }
GpuError last_error() { return std::exchange(calls::last_error(), kGpuSuccess); }
GpuError driver_version(int* version) {
  *version = 13000;
  return kGpuSuccess;
}

bool exists(int kernel) {
  return kernel >= 0 && kernel < cuda::kKernels && find_kernel.load()(kernel).name != nullptr;
}
calls::Kernel kernel_of(int kernel) {
  const cuda::KernelEntry& entry = find_kernel.load()(kernel);
  static std::array<std::atomic<unsigned>, cuda::kKernels> known{};
  std::atomic<unsigned>& registers = known[static_cast<std::size_t>(kernel)];
  if (registers == 0) {
    const unsigned found = registers_of(entry);
    registers = found != 0 ? found : kUsualRegisters;
  }
  return {entry.name, entry.body, entry.max_threads, registers, true};
}
GpuError load_kernel(int kernel) {
  return exists(kernel) ? calls::load_kernel(kernel_of(kernel)) : kGpuInvalidValue;
}
GpuError kernel_info(GpuKernelInfo* info, int kernel) {
  if (!exists(kernel)) return kGpuInvalidValue;
  const calls::Kernel found = kernel_of(kernel);
  *info = {static_cast<int>(found.registers), 0, 0, found.max_threads};
  return load_kernel(kernel);
}
GpuError resident_ctas(int* per_multiprocessor, int kernel, int block, std::size_t shared) {
  if (!exists(kernel)) return kGpuInvalidValue;
  if (const GpuError error = load_kernel(kernel)) return error;
  return calls::resident_ctas(per_multiprocessor, kernel_of(kernel), block, shared);
}
GpuError launch(const GpuLaunch& launch, GpuStream stream) {
  if (!exists(launch.kernel)) return kGpuInvalidValue;
  const cuda::KernelEntry& entry = find_kernel.load()(launch.kernel);
  if (launch.argument_bytes != entry.argument_bytes) return kGpuInvalidValue;
  return calls::launch_kernel(kernel_of(launch.kernel), launch, stream);
}

// List of the call counts by name, filled by the table below.
CallCount* newest_count = nullptr;

struct Name {
  char text[32] = {};
  template <std::size_t n>
  consteval Name(const char (&from)[n]) {
    for (std::size_t i = 0; i < n; ++i) text[i] = from[i];
  }
};

template <Name name, auto function>
struct Counted;
template <Name name, class Result, class... Arguments, Result (*function)(Arguments...)>
struct Counted<name, function> {
  // cudaFree(nullptr) frees nothing.
  static bool makes_context(Arguments... arguments) {
    if constexpr (std::is_same_v<std::tuple<Arguments...>, std::tuple<void*>>)
      return ((arguments == nullptr) && ...);
    return false;
  }
  static Result call(Arguments... arguments) {
    if (!makes_context(arguments...)) check_thread(name.text);
    const std::uint64_t calls = count.calls.fetch_add(1, std::memory_order_relaxed);
    if constexpr (std::is_same_v<Result, GpuError>) {
      const std::uint64_t allowed = count.allowed.load(std::memory_order_relaxed);
      if (calls >= allowed && calls - allowed < count.refused.load(std::memory_order_relaxed))
        return kGpuNotSupported;
    }
    return function(std::forward<Arguments>(arguments)...);
  }
  static inline CallCount count{name.text};
};
template <Name name, auto function>
constexpr auto counted = &Counted<name, function>::call;

constinit const GpuApi kTable = {
    .name = "simt",
    .error_name = counted<"error_name", calls::error_name>,
    .error_text = counted<"error_text", calls::error_text>,
    .last_error = counted<"last_error", last_error>,
    .peek_error = counted<"peek_error", peek_error>,
    .driver_version = counted<"driver_version", driver_version>,
    .device_count = counted<"device_count", calls::device_count>,
    .get_device = counted<"get_device", calls::get_device>,
    .set_device = counted<"set_device", calls::set_device>,
    .attribute = counted<"attribute", calls::attribute>,
    .device_name = counted<"device_name", calls::device_name>,
    .pci_bus_id = counted<"pci_bus_id", calls::pci_bus_id>,
    .device_uuid = counted<"device_uuid", calls::device_uuid>,
    .memory_info = counted<"memory_info", calls::memory_info>,
    .synchronize_device = counted<"synchronize_device", calls::synchronize_device>,
    .can_access_peer = counted<"can_access_peer", calls::can_access_peer>,
    .enable_peer_access = counted<"enable_peer_access", calls::enable_peer_access>,
    .allocate = counted<"allocate", calls::allocate>,
    .free_memory = counted<"free_memory", calls::free_memory>,
    .allocate_host = counted<"allocate_host", calls::allocate_host>,
    .free_host = counted<"free_host", calls::free_host>,
    .allocate_managed = counted<"allocate_managed", calls::allocate_managed>,
    .register_host = counted<"register_host", calls::register_host>,
    .unregister_host = counted<"unregister_host", calls::unregister_host>,
    .host_device_pointer = counted<"host_device_pointer", calls::host_device_pointer>,
    .pointer_info = counted<"pointer_info", calls::pointer_info>,
    .may_access = counted<"may_access", calls::may_access>,
    .address_range = counted<"address_range", calls::address_range>,
    .copy = counted<"copy", calls::copy>,
    .fill = counted<"fill", calls::fill>,
    .pool_allocate = counted<"pool_allocate", calls::pool_allocate>,
    .pool_free = counted<"pool_free", calls::pool_free>,
    .pool_allow = counted<"pool_allow", calls::pool_allow>,
    .ipc_export = counted<"ipc_export", calls::ipc_export>,
    .ipc_open = counted<"ipc_open", calls::ipc_open>,
    .ipc_close = counted<"ipc_close", calls::ipc_close>,
    .vmm_granularity = counted<"vmm_granularity", calls::vmm_granularity>,
    .vmm_create = counted<"vmm_create", calls::vmm_create>,
    .vmm_release = counted<"vmm_release", calls::vmm_release>,
    .vmm_reserve = counted<"vmm_reserve", calls::vmm_reserve>,
    .vmm_unreserve = counted<"vmm_unreserve", calls::vmm_unreserve>,
    .vmm_map = counted<"vmm_map", calls::vmm_map>,
    .vmm_unmap = counted<"vmm_unmap", calls::vmm_unmap>,
    .vmm_allow = counted<"vmm_allow", calls::vmm_allow>,
    .vmm_export = counted<"vmm_export", calls::vmm_export>,
    .vmm_import = counted<"vmm_import", calls::vmm_import>,
    .vmm_retain = counted<"vmm_retain", calls::vmm_retain>,
    .fabric_create = counted<"fabric_create", calls::fabric_create>,
    .fabric_export = counted<"fabric_export", calls::fabric_export>,
    .fabric_import = counted<"fabric_import", calls::fabric_import>,
    .dmabuf_export = counted<"dmabuf_export", calls::dmabuf_export>,
    .flush_direct_writes = counted<"flush_direct_writes", calls::flush_direct_writes>,
    .multicast_granularity = counted<"multicast_granularity", calls::multicast_granularity>,
    .multicast_create = counted<"multicast_create", calls::multicast_create>,
    .multicast_add = counted<"multicast_add", calls::multicast_add>,
    .multicast_bind = counted<"multicast_bind", calls::multicast_bind>,
    .multicast_unbind = counted<"multicast_unbind", calls::multicast_unbind>,
    .create_stream = counted<"create_stream", calls::create_stream>,
    .destroy_stream = counted<"destroy_stream", calls::destroy_stream>,
    .synchronize_stream = counted<"synchronize_stream", calls::synchronize_stream>,
    .query_stream = counted<"query_stream", calls::query_stream>,
    .priority_range = counted<"priority_range", calls::priority_range>,
    .stream_priority = counted<"stream_priority", calls::stream_priority>,
    .stream_device = counted<"stream_device", calls::stream_device>,
    .stream_wait_event = counted<"stream_wait_event", calls::stream_wait_event>,
    .create_event = counted<"create_event", calls::create_event>,
    .destroy_event = counted<"destroy_event", calls::destroy_event>,
    .record_event = counted<"record_event", calls::record_event>,
    .query_event = counted<"query_event", calls::query_event>,
    .synchronize_event = counted<"synchronize_event", calls::synchronize_event>,
    .elapsed_ms = counted<"elapsed_ms", calls::elapsed_ms>,
    .launch_host = counted<"launch_host", calls::launch_host>,
    .stream_write32 = counted<"stream_write32", calls::stream_write32>,
    .stream_wait32 = counted<"stream_wait32", calls::stream_wait32>,
    .capture_info = counted<"capture_info", calls::capture_info>,
    .exchange_capture_mode = counted<"exchange_capture_mode", calls::exchange_capture_mode>,
    .begin_capture = counted<"begin_capture", calls::begin_capture>,
    .end_capture = counted<"end_capture", calls::end_capture>,
    .launch_graph = counted<"launch_graph", calls::launch_graph>,
    .destroy_graph = counted<"destroy_graph", calls::destroy_graph>,
    .load_kernel = counted<"load_kernel", load_kernel>,
    .kernel_info = counted<"kernel_info", kernel_info>,
    .resident_ctas = counted<"resident_ctas", resident_ctas>,
    .launch = counted<"launch", launch>,
};

}  // namespace

CallCount::CallCount(const char* call) : name(call), next(std::exchange(newest_count, this)) {}

const CallCount* call_counts() { return newest_count; }

void refuse_call(std::string_view name, std::uint64_t allowed, std::uint64_t refused) {
  for (CallCount* one = newest_count; one != nullptr; one = one->next) {
    if (one->name != name) continue;
    one->refused = refused;
    one->allowed = one->calls + allowed;
  }
}

const GpuApi& gpu_table(Finder kernel_of) {
  find_kernel = kernel_of;
  return kTable;
}

}  // namespace rondo::simt
