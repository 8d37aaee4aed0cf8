#include "collectives/gpu/memory_registry.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

#include "base/atomics.h"
#include "base/log.h"
#include "base/poll_until.h"
#include "collectives/gpu/registry_handles.h"
#include "transport/cuda/device.h"

namespace rondo::gpu {
namespace {

constexpr auto kBriefly = std::chrono::seconds(5);  // for an answer that the leader has at hand

// Where the leader sees `pointer` of the block at `base` that it has mapped; 0: it could not.
std::uint64_t place(std::uint64_t in_leader, const std::byte* base, const void* pointer) {
  if (in_leader == 0) return 0;
  return in_leader + static_cast<std::uint64_t>(static_cast<const std::byte*>(pointer) - base);
}

}  // namespace

MemoryRegistry::MemoryRegistry(ControlSegment& segment, std::vector<int> devices, int process,
                               bool areas_on_host, std::vector<net::Socket> sockets)
    : segment_(segment),
      devices_(std::move(devices)),
      process_(process),
      areas_on_host_(areas_on_host),
      sockets_(std::move(sockets)) {}

MemoryRegistry::~MemoryRegistry() {
  for (const auto& [address, memory] : opened_) close_memory(memory);
  for (const OpenedMemory& area : areas_) {
    Done freed;
    if (area.at == nullptr || area.at == on_host_.on_device) continue;
    if (leads() && free_shareable(area.at, &freed)) continue;
    close_memory(area);
  }
  if (on_host_.on_device != nullptr) gpu_api()->unregister_host(on_host_.memory.data());
}

std::uint64_t MemoryRegistry::message_bytes() const {
  constexpr std::uint64_t kMostPinned = 8 << 20;
  return areas_on_host_ ? std::min(segment_.staging_bytes(), kMostPinned)
                        : segment_.staging_bytes();
}

std::uint64_t MemoryRegistry::area_bytes(Area which) const {
  if (which == kStaging) return scalar_at(segment_.ranks());
  return message_bytes() * static_cast<std::uint64_t>(segment_.ranks());
}

std::uint64_t MemoryRegistry::bytes() const {
  std::lock_guard lock(mutex_);
  std::uint64_t sum = 0;
  for (std::uint32_t a = 0; a < kAreas; ++a)
    if (leads() && !is_on_host(static_cast<Area>(a))) sum += areas_[a].bytes;
  return sum;
}

// ---- whoever needs memory ----

Result<Fd> MemoryRegistry::ask(Kind kind, const Fd* file, const net::Deadline& deadline) {
  const int fd = file != nullptr && *file ? file->get() : -1;
  const std::span<const int> fds(&fd, fd >= 0 ? 1 : 0);
  const Done sent = shm::send_fds(sockets_[0].get(), static_cast<int>(kind), fds, deadline);
  auto heard = sent.ok() ? shm::receive_fds(sockets_[0].get(), deadline)
                         : Result<shm::FdMessage>(sent.error());
  if (heard.status() == Status::kRemoteError)
    return fail(Status::kRemoteError,
                "rank 0 ended; its process keeps the memory through which ranks share this GPU");
  if (heard.status() == Status::kTimeout)
    return fail(Status::kTimeout,
                "rank 0 did not answer when asked for memory to share; is its process stopped?");
  RONDO_TRY(shm::FdMessage reply, std::move(heard));
  const RegistryRequest& request = segment_.request(process_);
  if (request.status != 0) return fail(static_cast<Status>(request.status), "{}", request.text);
  return reply.fds.empty() ? Fd() : std::move(reply.fds[0]);
}

Result<std::byte*> MemoryRegistry::area(Area which, const net::Deadline& deadline) {
  std::lock_guard lock(mutex_);
  if (areas_[which].at != nullptr) return areas_[which].at;
  const RelaxedCapture relaxed;
  if (leads()) return make_area(which);
  RegistryRequest& request = segment_.request(process_);
  request.area = which;
  RONDO_TRY(Fd file, ask(kArea, nullptr, deadline));
  if (is_on_host(which)) {
    RONDO_CHECK_OK(map_host_area(which, std::move(file)));
  } else {
    RONDO_TRY(areas_[which], open_memory(get_handle(request, std::move(file)), devices_));
  }
  std::uint32_t& mapped = segment_.process(process_).mapped;
  HostAtomics::store_release(mapped, HostAtomics::load_relaxed(mapped) | 1u << which);
  return areas_[which].at;
}

void MemoryRegistry::map_new_areas() {
  const std::uint32_t made = HostAtomics::load_acquire(segment_.areas_made());
  const std::uint32_t left = made & ~HostAtomics::load_relaxed(segment_.process(process_).mapped);
  for (std::uint32_t which = 0; left != 0 && which < kAreas; ++which)
    if ((left >> which & 1) != 0) (void)area(static_cast<Area>(which), net::Deadline::of(kBriefly));
}

void MemoryRegistry::wait_until_mapped() {
  const auto all_have = [&] {
    const std::uint32_t made = HostAtomics::load_acquire(segment_.areas_made());
    for (int p = 1; p < segment_.processes(); ++p)
      if ((made & ~HostAtomics::load_acquire(segment_.process(p).mapped)) != 0) return false;
    return true;
  };
  poll_until(all_have, std::chrono::steady_clock::now() + kBriefly, std::chrono::milliseconds(1));
}

const MemoryRegistry::MappedBlock* MemoryRegistry::find(const ShareableBlock& block) const {
  for (const MappedBlock& mapped : mapped_)
    if (mapped.number == block.number && mapped.base == block.base) return &mapped;
  return nullptr;
}

std::optional<std::uint64_t> MemoryRegistry::known_in_leader(const void* pointer,
                                                             std::size_t bytes) const {
  if (leads()) return reinterpret_cast<std::uint64_t>(pointer);
  const auto found = find_shareable(pointer, bytes);
  if (!found) return 0;
  std::lock_guard lock(mutex_);
  const MappedBlock* const block = find(*found);
  if (block == nullptr) return std::nullopt;
  return place(block->in_leader, block->base, pointer);
}

Result<std::uint64_t> MemoryRegistry::in_leader(const void* pointer, std::size_t bytes,
                                                const net::Deadline& deadline) {
  if (const auto known = known_in_leader(pointer, bytes)) return *known;
  const auto found = find_shareable(pointer, bytes);
  if (!found) return std::uint64_t{0};
  std::lock_guard lock(mutex_);
  const RelaxedCapture relaxed;
  MappedBlock block{found->number, found->base, 0};
  if (auto handle = share_memory(found->base, found->bytes); handle.ok()) {
    RegistryRequest& request = segment_.request(process_);
    put_handle(request, *handle);
    const auto answered = ask(kMap, &handle->file, deadline);
    if (answered.ok()) {
      block.in_leader = request.address;
    } else if (answered.status() == Status::kTimeout || answered.status() == Status::kRemoteError ||
               answered.status() == Status::kInvalidUsage) {
      return answered.error();  // the leader is gone, or this rank gave up
    } else {
      RONDO_INFO(kInit, "memory at {} is staged: {}", fmt::ptr(found->base), answered.error().text);
    }
  }
  mapped_.push_back(block);
  return place(block.in_leader, block.base, pointer);
}

void MemoryRegistry::block_ends(std::uint64_t number) {
  std::lock_guard lock(mutex_);
  const auto ends = [&](const MappedBlock& block) { return block.number == number; };
  const RelaxedCapture relaxed;
  for (const MappedBlock& block : mapped_) {
    if (!ends(block) || block.in_leader == 0) continue;
    segment_.request(process_).address = block.in_leader;
    (void)ask(kUnmap, nullptr, net::Deadline::of(kBriefly));  // a leader that is gone has unmapped
  }
  std::erase_if(mapped_, ends);
}

// ---- the leader ----

Result<std::byte*> MemoryRegistry::map_host_area(Area which, Fd file) {
  const std::uint64_t bytes = area_bytes(which);
  RONDO_TRY(on_host_.memory, shm::map_received(file.get(), bytes));
  RONDO_CHECK_OK(shm::commit(on_host_.memory.data(), bytes, "messages between GPUs"));
  const GpuApi& api = *gpu_api();
  RONDO_CHECK_OK(
      check(api.register_host(on_host_.memory.data(), bytes, kHostPortable | kHostMapped),
            "cudaHostRegister of memory that processes share (is ulimit -l too low?)"));
  void* at = nullptr;
  RONDO_CHECK_OK(
      check(api.host_device_pointer(&at, on_host_.memory.data()), "cudaHostGetDevicePointer"));
  on_host_.on_device = static_cast<std::byte*>(at);
  on_host_.file = std::move(file);
  areas_[which] = {on_host_.on_device, bytes, false};
  return on_host_.on_device;
}

Result<std::byte*> MemoryRegistry::make_area(Area which) {
  if (areas_[which].at != nullptr) return areas_[which].at;
  const std::uint64_t bytes = area_bytes(which);
  std::uint32_t& all = segment_.areas_made();
  const auto is_made = [&] {
    HostAtomics::store_release(all, HostAtomics::load_relaxed(all) | 1u << which);
  };
  if (is_on_host(which)) {
    RONDO_TRY(Fd file, shm::create_memfd("rondo-gpu-messages", bytes));
    RONDO_TRY(std::byte* const at, map_host_area(which, std::move(file)));
    is_made();
    return at;
  }
  auto made = allocate_shareable(bytes, devices_[0]);
  if (!made.ok())
    return fail(
        made.status(),
        "{}: {} bytes of staging for {} ranks on one GPU; RONDO_GPU_STAGING sets how much a "
        "rank gets",
        made.error().text, bytes, segment_.ranks());
  auto* const at = static_cast<std::byte*>(*made);
  areas_[which] = {at, bytes, true};
  is_made();
  if (which == kStaging)
    HostAtomics::store_release(segment_.words().staging, reinterpret_cast<std::uint64_t>(at));
  return at;
}

void MemoryRegistry::serve(int process) {
  const net::Deadline deadline = net::Deadline::of(kBriefly);
  auto question = shm::receive_fds(sockets_[process].get(), deadline);
  if (!question.ok()) {  // its process left, perhaps without a word
    std::uint32_t& mapped = segment_.process(process).mapped;
    HostAtomics::store_release(mapped, HostAtomics::load_acquire(mapped) | ((1u << kAreas) - 1));
    return sockets_[process].reset();
  }
  RegistryRequest& request = segment_.request(process);
  auto result = answer(process, static_cast<Kind>(question->value), std::move(question->fds));
  request.status = static_cast<std::uint32_t>(result.status());
  const int fd = result.ok() && *result ? result->get() : -1;
  if (!result.ok()) put_text(request, result.error().text);
  const std::span<const int> fds(&fd, fd >= 0 ? 1 : 0);
  if (!shm::send_fds(sockets_[process].get(), 0, fds, deadline).ok()) sockets_[process].reset();
}

Result<Fd> MemoryRegistry::answer(int process, Kind kind, std::vector<Fd> fds) {
  RegistryRequest& request = segment_.request(process);
  std::lock_guard lock(mutex_);
  if (kind == kArea) {
    const auto which = request.area == kMessages ? kMessages : kStaging;
    RONDO_TRY(std::byte * at, make_area(which));
    if (is_on_host(which)) return Fd(dup(on_host_.file.get()));
    const auto block = find_shareable(at, area_bytes(which));
    if (!block) return fail(Status::kInternalError, "the staging area is unknown");
    RONDO_TRY(SharedHandle handle, share_memory(block->base, block->bytes));
    put_handle(request, handle);
    return std::move(handle.file);
  }
  if (kind == kMap) {
    const Fd* const file = request.is_file != 0 && !fds.empty() ? &fds[0] : nullptr;
    RONDO_TRY(
        const OpenedMemory memory,
        open_memory(get_handle(request, file != nullptr ? std::move(fds[0]) : Fd()), devices_));
    request.address = reinterpret_cast<std::uint64_t>(memory.at);
    opened_[request.address] = memory;
    return Fd();
  }
  const auto found = opened_.find(request.address);
  if (found == opened_.end()) return Fd();
  close_memory(found->second);
  opened_.erase(found);
  return Fd();
}

}  // namespace rondo::gpu
