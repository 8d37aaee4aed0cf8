#include "collectives/gpu/channels/multicast_memory.h"

#include <algorithm>

#include "base/log.h"
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

}  // namespace

MulticastMemory::MulticastMemory(std::vector<int> devices)
    : api_(*gpu_api()), devices_(std::move(devices)), parts_(devices_.size()) {}

Result<std::unique_ptr<MulticastMemory>> MulticastMemory::make(std::vector<int> devices) {
  auto made = std::make_unique<MulticastMemory>(std::move(devices));
  if (const Status can = made->can(); !can.ok()) {
    RONDO_INFO(kInit, "multicast memory (NVLS) was requested, but {}", can.error().text);
    return std::unique_ptr<MulticastMemory>();
  }
  const auto opened = [&]() -> Status {
    RONDO_CHECK_OK(made->create());
    RONDO_CHECK_OK(made->add());
    return made->bind();
  };
  // A switch has room for few objects, and others may control it (no fabric manager).
  if (const Status all = opened(); !all.ok()) {
    RONDO_WARN("calls run without multicast memory (NVLS): {}", all.error().text);
    return std::unique_ptr<MulticastMemory>();
  }
  return made;
}

Status MulticastMemory::can() const {
  if (api_.multicast_unbind == nullptr || api_.vmm_create == nullptr)
    return fail(StatusCode::kSystemError,
                "the driver does not support it (needs CUDA 12.1 or newer)");
  for (const int device : devices_) {
    int can = 0;
    if (device < 0) continue;
    if (api_.attribute(&can, GpuAttribute::kMulticast, device) != kGpuSuccess || can == 0)
      return fail(StatusCode::kSystemError,
                  "CUDA device {} does not support it (needs a switch between GPUs)", device);
  }
  return ok_status();
}

Status MulticastMemory::create(std::size_t bytes) {
  std::size_t granularity = 0, of_memory = 0;
  RONDO_CHECK_OK(
      check(api_.multicast_granularity(&granularity, ranks()), "cuMulticastGetGranularity"));
  const int device = *std::find_if(devices_.begin(), devices_.end(), [](int d) { return d >= 0; });
  RONDO_CHECK_OK(check(api_.vmm_granularity(&of_memory, device), "cuMemGetAllocationGranularity"));
  granularity = std::max(granularity, of_memory);
  bytes_ = (bytes + granularity - 1) / granularity * granularity;
  return check(api_.multicast_create(&object_, bytes_, ranks()),
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
  for (const int device : devices_)
    if (device >= 0)
      RONDO_CHECK_OK(check(api_.multicast_add(object_, device), "cuMulticastAddDevice"));
  return ok_status();
}

Status MulticastMemory::bind() {
  for (int r = 0; r < ranks(); ++r) {
    if (!is_here(r)) continue;
    const DeviceScope scope(devices_[r]);
    RONDO_CHECK_OK(scope.entered());
    RONDO_TRY(parts_[r].memory, memory_registry().allocate_own(bytes_, devices_[r]));
    parts_[r].at = parts_[r].memory.get();
    RONDO_CHECK_OK(bind(r));
  }
  return map();
}

Status MulticastMemory::bind_own(int rank, std::byte* memory) {
  parts_[static_cast<std::size_t>(rank)].at = memory;
  RONDO_CHECK_OK(bind(rank));
  return map();
}

Status MulticastMemory::bind(int rank) {
  Part& part = parts_[static_cast<std::size_t>(rank)];
  if (part.bound) return ok_status();
  const Retained allocation(api_, part.at);
  RONDO_CHECK_OK(allocation.retained());
  RONDO_CHECK_OK(check(api_.multicast_bind(object_, 0, allocation.get(), 0, bytes_),
                       "cuMulticastBindMem (is there as much room in the switch?)"));
  part.bound = true;
  return ok_status();
}

Status MulticastMemory::unbind(int rank) {
  Part& part = parts_[static_cast<std::size_t>(rank)];
  if (!part.bound) return ok_status();
  RONDO_CHECK_OK(
      check(api_.multicast_unbind(object_, devices_[rank], 0, bytes_), "cuMulticastUnbind"));
  part.bound = false;
  return ok_status();
}

Status MulticastMemory::map() {
  void* at = nullptr;
  RONDO_CHECK_OK(check(api_.vmm_reserve(&at, bytes_, 0), "cuMemAddressReserve"));
  const GpuError mapped = api_.vmm_map(at, bytes_, object_);
  if (mapped != kGpuSuccess) api_.vmm_unreserve(at, bytes_);
  RONDO_CHECK_OK(check(mapped, "cuMemMap of multicast memory"));
  all_ = static_cast<std::byte*>(at);
  for (const int device : devices_)
    if (device >= 0) RONDO_CHECK_OK(check(api_.vmm_allow(all_, bytes_, device), "cuMemSetAccess"));
  return ok_status();
}

void MulticastMemory::list_in(DroppableMemory& droppable) {
  for (int r = 0; r < ranks(); ++r)
    if (is_here(r))
      droppable.add(
          r, own(r), bytes_, [this, r] { return bind(r); }, [this, r] { return unbind(r); });
}

// Frees after the kernels of the devices that use it.
MulticastMemory::~MulticastMemory() {
  if (kept_for_.count() > 0) {
    const auto until = std::chrono::steady_clock::now() + kept_for_;
    UnfinishedWork().leave(
        [until] { return [until] { return std::chrono::steady_clock::now() >= until; }; });
  }
  free_when_idle([&api = api_, devices = devices_, bytes = bytes_, parts = parts_, object = object_,
                  all = all_] {
    if (all != nullptr) {
      api.vmm_unmap(all, bytes);
      api.vmm_unreserve(all, bytes);
    }
    for (std::size_t r = 0; r < parts.size(); ++r)
      if (parts[r].bound) api.multicast_unbind(object, devices[r], 0, bytes);
    if (object != 0) api.vmm_release(object);
  });
}

}  // namespace rondo::gpu
