// SPDX-License-Identifier: Apache-2.0
#include "collectives/gpu/channels/multicast_memory.h"

#include <algorithm>

#include "base/log.h"
#include "collectives/gpu/memory/device_memory.h"
#include "transport/cuda/deferred_free.h"
#include "transport/cuda/device.h"
#include "transport/memory/memory_registry.h"

namespace rondo::gpu {
namespace {

// A driver allocation, retained while this object lives.
class Retained {
 public:
  Retained(const GpuApi& api, std::byte* at)
      : api_(api), error_(api.vmm_retain(&allocation_, at)) {}
  ~Retained() {
    if (error_ == kGpuSuccess) api_.vmm_release(allocation_);
  }
  Retained(const Retained&) = delete;
  Retained& operator=(const Retained&) = delete;
  Status retained() const { return check(error_, "cuMemRetainAllocationHandle"); }
  GpuAllocation get() const { return allocation_; }

 private:
  const GpuApi& api_;
  GpuAllocation allocation_ = 0;
  const GpuError error_;
};

// Sends the leader's descriptor to the others, which may receive none.
Result<MemoryHandle> pass(const ProcessPeers& peers, MemoryHandle own) {
  if (!peers.leads()) {
    RONDO_TRY(auto handles, receive_handles(peers.to_leader().get(),
                                            {&peers.segment->offer(0).handle}, peers.deadline));
    return std::move(handles[0]);
  }
  for (int p = 1; p < peers.processes(); ++p)
    RONDO_CHECK_OK(send_files(peers.of_process(p).get(), {&own}, peers.deadline));
  return own;
}

}  // namespace

MulticastMemory::MulticastMemory(int ranks, int rank, int device)
    : api_(*gpu_api()), ranks_(ranks), rank_(rank), device_(device) {}

Status MulticastMemory::can() const {
  if (api_.multicast_unbind == nullptr || api_.vmm_create == nullptr)
    return fail(StatusCode::kSystemError,
                "the driver does not support it (needs CUDA 12.1 or newer)");
  int can = 0;
  if (api_.attribute(&can, GpuAttribute::kMulticast, device_) != kGpuSuccess || can == 0)
    return fail(StatusCode::kSystemError,
                "CUDA device {} does not support it (needs a switch between GPUs)", device_);
  return ok_status();
}

Status MulticastMemory::create(std::size_t bytes) {
  std::size_t granularity = 0, of_memory = 0;
  RONDO_CHECK_OK(
      check(api_.multicast_granularity(&granularity, ranks_), "cuMulticastGetGranularity"));
  RONDO_CHECK_OK(check(api_.vmm_granularity(&of_memory, device_), "cuMemGetAllocationGranularity"));
  granularity = std::max(granularity, of_memory);
  bytes_ = (bytes + granularity - 1) / granularity * granularity;
  return check(api_.multicast_create(&object_, bytes_, ranks_),
               "cuMulticastCreate (has the switch room, and does nvidia-fabricmanager run?)");
}

Result<MemoryHandle> MulticastMemory::handle() const {
  MemoryHandle made;
  int file = -1;
  RONDO_CHECK_OK(check(api_.vmm_export(&file, object_), "cuMemExportToShareableHandle"));
  made.file = Fd(file);
  made.plain.kind = PlainHandle::kFile;
  made.plain.bytes = bytes_;
  return made;
}

Status MulticastMemory::open(const MemoryHandle& handle) {
  if (!handle.file) return fail(StatusCode::kSystemError, "no descriptor of it came from rank 0");
  bytes_ = handle.plain.bytes;
  return check(api_.vmm_import(&object_, handle.file.get()), "cuMemImportFromShareableHandle");
}

Status MulticastMemory::add() {
  return check(api_.multicast_add(object_, device_), "cuMulticastAddDevice");
}

Status MulticastMemory::bind() {
  const DeviceScope scope(device_);
  RONDO_CHECK_OK(scope.entered());
  RONDO_TRY(memory_, memory_registry().allocate_own(bytes_, device_));
  return bind_own(memory_.get());
}

Status MulticastMemory::bind_own(std::byte* memory) {
  own_ = memory;
  RONDO_CHECK_OK(bind_again());
  return map();
}

Status MulticastMemory::bind_again() {
  if (is_bound_) return ok_status();
  const Retained allocation(api_, own_);
  RONDO_CHECK_OK(allocation.retained());
  RONDO_CHECK_OK(check(api_.multicast_bind(object_, 0, allocation.get(), 0, bytes_),
                       "cuMulticastBindMem (is there as much room in the switch?)"));
  is_bound_ = true;
  return ok_status();
}

Status MulticastMemory::unbind() {
  if (!is_bound_) return ok_status();
  RONDO_CHECK_OK(check(api_.multicast_unbind(object_, device_, 0, bytes_), "cuMulticastUnbind"));
  is_bound_ = false;
  return ok_status();
}

Status MulticastMemory::map() {
  void* at = nullptr;
  RONDO_CHECK_OK(check(api_.vmm_reserve(&at, bytes_, 0), "cuMemAddressReserve"));
  const GpuError mapped = api_.vmm_map(at, bytes_, object_);
  if (mapped != kGpuSuccess) api_.vmm_unreserve(at, bytes_);
  RONDO_CHECK_OK(check(mapped, "cuMemMap of multicast memory"));
  all_ = static_cast<std::byte*>(at);
  return check(api_.vmm_allow(all_, bytes_, device_), "cuMemSetAccess");
}

void MulticastMemory::list_in(DeviceMemory& all) {
  all.add(
      rank_, own_, bytes_, [this] { return bind_again(); }, [this] { return unbind(); });
}

// Frees after the kernels of the devices that use it.
MulticastMemory::~MulticastMemory() {
  if (kept_for_.count() > 0) {
    const auto until = std::chrono::steady_clock::now() + kept_for_;
    UnfinishedWork().leave(
        [until] { return [until] { return std::chrono::steady_clock::now() >= until; }; });
  }
  free_when_idle([&api = api_, device = device_, bytes = bytes_, memory = memory_,
                  is_bound = is_bound_, object = object_, all = all_] {
    if (all != nullptr) {
      api.vmm_unmap(all, bytes);
      api.vmm_unreserve(all, bytes);
    }
    if (is_bound) api.multicast_unbind(object, device, 0, bytes);
    if (object != 0) api.vmm_release(object);
  });
}

Result<std::unique_ptr<MulticastMemory>> share_multicast(const ProcessPeers& peers, int device) {
  const auto ranks = static_cast<int>(peers.process_of.size());
  auto made = std::make_unique<MulticastMemory>(ranks, peers.first_rank(), device);
  MemoryHandle handle;
  const auto make = [&]() -> Status {
    RONDO_CHECK_OK(made->can());
    if (!peers.leads()) return ok_status();
    RONDO_CHECK_OK(made->create());
    RONDO_TRY(handle, made->handle());
    peers.segment->offer(0).handle = handle.plain;
    return ok_status();
  };
  const auto take_part = [&]() -> Status {
    if (!peers.leads()) RONDO_CHECK_OK(made->open(handle));
    return made->add();
  };
  const auto all_could = [&](const Status& own) -> Result<bool> {
    RONDO_TRY(const auto refusal, refusal_of_any(peers, own));
    if (refusal)
      RONDO_WARN("calls run without multicast memory (NVLS), since rank {} could not join: {}",
                 refusal->rank, refusal->why.text);
    return !refusal;
  };
  std::unique_ptr<MulticastMemory> none;
  RONDO_TRY(const bool can, all_could(make()));
  if (!can) return none;
  RONDO_TRY(handle, pass(peers, std::move(handle)));
  RONDO_TRY(const bool added, all_could(take_part()));
  if (!added) return none;
  RONDO_TRY(const bool bound, all_could(made->bind()));
  return bound ? std::move(made) : std::move(none);
}

}  // namespace rondo::gpu
