#include "collectives/gpu/leader_memory.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "base/atomics.h"
#include "base/log.h"
#include "base/poll_until.h"
#include "transport/cuda/device.h"
#include "transport/memory/pinned_file.h"
#include "transport/shm/memfd.h"

namespace rondo::gpu {
namespace {

constexpr auto kBriefly = std::chrono::seconds(5);  // for an answer that the leader has at hand

// Where the leader sees `pointer` of the block at `base` that it has mapped; 0: it could not.
std::uint64_t place(std::uint64_t in_leader, const std::byte* base, const void* pointer) {
  if (in_leader == 0) return 0;
  return in_leader + static_cast<std::uint64_t>(static_cast<const std::byte*>(pointer) - base);
}

}  // namespace

LeaderMemory::LeaderMemory(ControlSegment& segment, std::vector<int> devices, int process,
                           bool areas_on_host, std::vector<net::Socket> sockets)
    : segment_(segment),
      devices_(std::move(devices)),
      process_(process),
      areas_on_host_(areas_on_host),
      sockets_(std::move(sockets)) {}

LeaderMemory::~LeaderMemory() {
  imported_.clear();
  for (const Area which : {kStaging, kMessages})
    if (Done freed; leads() && areas_[which] != nullptr && !is_on_host(which))
      memory_registry().free(areas_[which], &freed);
}

std::uint64_t LeaderMemory::message_bytes() const {
  constexpr std::uint64_t kMostPinned = 8 << 20;
  return areas_on_host_ ? std::min(segment_.staging_bytes(), kMostPinned)
                        : segment_.staging_bytes();
}

std::uint64_t LeaderMemory::area_bytes(Area which) const {
  if (which == kStaging) return scalar_at(segment_.ranks());
  return message_bytes() * static_cast<std::uint64_t>(segment_.ranks());
}

std::uint64_t LeaderMemory::bytes() const {
  std::lock_guard lock(mutex_);
  std::uint64_t sum = 0;
  for (const Area which : {kStaging, kMessages})
    if (leads() && areas_[which] != nullptr && !is_on_host(which)) sum += area_bytes(which);
  return sum;
}

// ---- whoever needs memory ----

Result<MemoryHandle> LeaderMemory::ask(Kind kind, const MemoryHandle& handle,
                                       const net::Deadline& deadline) {
  MemoryNote& request = segment_.request(process_);
  request.kind = kind;
  request.handle = handle.plain;
  const Done sent = send_files(sockets_[0].get(), {&handle}, deadline);
  auto heard = sent.ok() ? receive_handles(sockets_[0].get(), {&request.handle}, deadline)
                         : Result<std::vector<MemoryHandle>>(sent.error());
  if (heard.status() == Status::kRemoteError)
    return fail(Status::kRemoteError,
                "rank 0 ended; its process keeps the memory through which ranks share this GPU");
  if (heard.status() == Status::kTimeout)
    return fail(Status::kTimeout,
                "rank 0 did not answer when asked for memory to share; is its process stopped?");
  RONDO_TRY(std::vector<MemoryHandle> reply, std::move(heard));
  if (request.status != 0) return fail(static_cast<Status>(request.status), "{}", request.text);
  return std::move(reply[0]);
}

Result<std::byte*> LeaderMemory::area(Area which, const net::Deadline& deadline) {
  std::lock_guard lock(mutex_);
  if (areas_[which] != nullptr) return areas_[which];
  const RelaxedCapture relaxed;
  if (leads()) return make_area(which);
  segment_.request(process_).area = which;
  RONDO_TRY(MemoryHandle handle, ask(kArea, {}, deadline));
  if (is_on_host(which)) {
    RONDO_CHECK_OK(map_host_area(which, std::move(handle.file)));
  } else {
    RONDO_TRY(mapped_areas_[which], memory_registry().import_memory(handle, devices_));
    areas_[which] = mapped_areas_[which].get();
  }
  std::uint32_t& mapped = segment_.process(process_).mapped;
  HostAtomics::store_release(mapped, HostAtomics::load_relaxed(mapped) | 1u << which);
  return areas_[which];
}

void LeaderMemory::map_new_areas() {
  const std::uint32_t made = HostAtomics::load_acquire(segment_.areas_made());
  const std::uint32_t left = made & ~HostAtomics::load_relaxed(segment_.process(process_).mapped);
  for (std::uint32_t which = 0; left != 0 && which < kAreas; ++which)
    if ((left >> which & 1) != 0) (void)area(static_cast<Area>(which), net::Deadline::of(kBriefly));
}

void LeaderMemory::wait_until_mapped() {
  const auto all_have = [&] {
    const std::uint32_t made = HostAtomics::load_acquire(segment_.areas_made());
    for (int p = 1; p < segment_.processes(); ++p)
      if ((made & ~HostAtomics::load_acquire(segment_.process(p).mapped)) != 0) return false;
    return true;
  };
  poll_until(all_have, std::chrono::steady_clock::now() + kBriefly, std::chrono::milliseconds(1));
}

std::optional<std::uint64_t> LeaderMemory::known_in_leader(const void* pointer,
                                                           std::size_t bytes) const {
  if (leads()) return reinterpret_cast<std::uint64_t>(pointer);
  const auto block = memory_registry().find(pointer, bytes);
  if (!block) return 0;
  std::lock_guard lock(mutex_);
  const auto known = in_leader_.find({block->number, block->base});
  if (known == in_leader_.end()) return std::nullopt;
  return place(known->second, block->base, pointer);
}

Result<std::uint64_t> LeaderMemory::in_leader(const void* pointer, std::size_t bytes,
                                              const net::Deadline& deadline) {
  if (const auto known = known_in_leader(pointer, bytes)) return *known;
  const auto block = memory_registry().find(pointer, bytes);
  if (!block) return std::uint64_t{0};
  std::lock_guard lock(mutex_);
  const RelaxedCapture relaxed;
  std::uint64_t address = 0;
  if (const auto handle = memory_registry().export_block(*block); handle.ok()) {
    const auto answered = ask(kMap, *handle, deadline);
    if (answered.ok()) {
      address = segment_.request(process_).address;
    } else if (answered.status() == Status::kTimeout || answered.status() == Status::kRemoteError ||
               answered.status() == Status::kInvalidUsage) {
      return answered.error();  // the leader is gone, or this rank gave up
    } else {
      RONDO_INFO(kInit, "memory at {} is staged: {}", fmt::ptr(block->base), answered.error().text);
    }
  }
  in_leader_[{block->number, block->base}] = address;
  return place(address, block->base, pointer);
}

void LeaderMemory::block_ends(std::uint64_t number) {
  std::lock_guard lock(mutex_);
  const RelaxedCapture relaxed;
  std::erase_if(in_leader_, [&](const auto& block) {
    if (block.first.first != number) return false;
    segment_.request(process_).address = block.second;
    if (block.second != 0)  // a leader that is gone has unmapped
      (void)ask(kUnmap, {}, net::Deadline::of(kBriefly));
    return true;
  });
}

// ---- the leader ----

Result<std::byte*> LeaderMemory::map_host_area(Area which, Fd file) {
  RONDO_TRY(mapped_areas_[which],
            map_pinned(file.get(), area_bytes(which), "messages between GPUs"));
  RONDO_TRY(areas_[which], address_on_device(mapped_areas_[which]));
  host_file_ = std::move(file);
  return areas_[which];
}

Result<std::byte*> LeaderMemory::make_area(Area which) {
  if (areas_[which] != nullptr) return areas_[which];
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
  auto made = memory_registry().allocate(bytes, devices_[0]);
  if (!made.ok())
    return fail(
        made.status(),
        "{}: {} bytes of staging for {} ranks on one GPU; RONDO_GPU_STAGING sets how much a "
        "rank gets",
        made.error().text, bytes, segment_.ranks());
  auto* const at = static_cast<std::byte*>(*made);
  areas_[which] = at;
  is_made();
  if (which == kStaging)
    HostAtomics::store_release(segment_.words().staging, reinterpret_cast<std::uint64_t>(at));
  return at;
}

void LeaderMemory::serve(int process) {
  const net::Deadline deadline = net::Deadline::of(kBriefly);
  MemoryNote& request = segment_.request(process);
  const auto question = receive_handles(sockets_[process].get(), {&request.handle}, deadline);
  if (!question.ok()) {  // its process left, perhaps without a word
    std::uint32_t& mapped = segment_.process(process).mapped;
    HostAtomics::store_release(mapped, HostAtomics::load_acquire(mapped) | ((1u << kAreas) - 1));
    return sockets_[process].reset();
  }
  const auto result = answer(request, question->front());
  request.put(result);
  const MemoryHandle none;
  const MemoryHandle& given = result.ok() ? *result : none;
  request.handle = given.plain;
  if (!send_files(sockets_[process].get(), {&given}, deadline).ok()) sockets_[process].reset();
}

Result<MemoryHandle> LeaderMemory::answer(MemoryNote& request, const MemoryHandle& asked) {
  std::lock_guard lock(mutex_);
  if (request.kind == kArea) {
    const auto which = request.area == kMessages ? kMessages : kStaging;
    RONDO_TRY(const std::byte* const at, make_area(which));
    if (!is_on_host(which)) return memory_registry().export_range(at, area_bytes(which));
    return MemoryHandle{{.kind = PlainHandle::kFile}, Fd(dup(host_file_.get()))};
  }
  if (request.kind == kMap) {
    RONDO_TRY(ImportedMemory memory, memory_registry().import_memory(asked, devices_));
    request.address = reinterpret_cast<std::uint64_t>(memory.get());
    imported_.emplace(request.address, std::move(memory));
  } else if (const auto found = imported_.find(request.address); found != imported_.end()) {
    imported_.erase(found);
  }
  return MemoryHandle{};
}

}  // namespace rondo::gpu
