// SPDX-License-Identifier: Apache-2.0
#include "collectives/gpu/rank/window_memory.h"

#include <unistd.h>

#include <algorithm>

#include "base/log.h"
#include "transport/cuda/device.h"
#include "transport/proxy/gpu_direct.h"

namespace rondo::gpu {
namespace {

using net::Memory;

Status flush_writes(int device) {
  const DeviceScope scope(device);
  RONDO_CHECK_OK(scope.entered());
  return check(gpu_api()->flush_direct_writes(), "cuFlushGPUDirectRDMAWrites");
}

// Whole host pages that hold the window, in a dmabuf file of the whole allocation.
Result<WindowSide> by_file(std::byte* begin, std::size_t bytes, Fd* file) {
  const auto page = static_cast<std::uintptr_t>(getpagesize());
  const auto down = [&](std::uintptr_t at) { return at / page * page; };
  const auto up = [&](std::uintptr_t at) { return down(at + page - 1); };
  void* base = nullptr;
  std::size_t whole = 0;
  RONDO_CHECK_OK(check(gpu_api()->address_range(&base, &whole, begin), "cuMemGetAddressRange"));
  const auto first = down(reinterpret_cast<std::uintptr_t>(base));
  const auto last = up(reinterpret_cast<std::uintptr_t>(base) + whole);
  int made = -1;
  RONDO_CHECK_OK(
      check(gpu_api()->dmabuf_export(&made, reinterpret_cast<void*>(first), last - first),
            "cuMemGetHandleForAddressRange"));
  file->reset(made);
  const auto at = reinterpret_cast<std::uintptr_t>(begin), from = down(at);
  WindowSide side;
  side.memory = {.bytes = {reinterpret_cast<std::byte*>(from), up(at + bytes) - from},
                 .kind = Memory::Kind::kDmabuf,
                 .dmabuf = made,
                 .offset = from - first};
  side.begin = at - from;
  return side;
}

void add_sides(std::byte* begin, std::size_t bytes, int device, const GpuDirectVerdict& by,
               WindowMemory* window) {
  for (const Memory::Kind kind : by.kinds) {
    Fd file;
    auto side = kind == Memory::Kind::kDmabuf
                    ? by_file(begin, bytes, &file)
                    : Result<WindowSide>({.memory = {.bytes = {begin, bytes}, .kind = kind}});
    if (!side.ok()) {
      window->why_not += (window->why_not.empty() ? "" : "; ") + side.error().text;
      continue;
    }
    if (by.flushes) side->memory.flush = [device] { return flush_writes(device); };
    window->ways.push_back(std::move(*side));
    window->files.push_back(std::move(file));
  }
}

}  // namespace

WindowMemory WindowMemory::of(void* pointer, std::size_t bytes, int device,
                              const net::Network& network, const topology::NearNics& near) {
  WindowMemory window;
  window.named = static_cast<std::byte*>(pointer);
  GpuPointer info;
  if (const Status known =
          check(gpu_api()->pointer_info(&info, pointer), "cudaPointerGetAttributes");
      !known.ok()) {
    window.why_not = known.error().text;
    return window;
  }
  if (info.kind == GpuMemory::kHost) {
    window.named = static_cast<std::byte*>(info.on_host != nullptr ? info.on_host : pointer);
    window.ways.push_back({.memory = {.bytes = {window.named, bytes}}});
    return window;
  }
  if (info.kind != GpuMemory::kDevice) {
    window.why_not =
        "it is managed or pageable memory, which can move while NICs write to it: allocate it with "
        "ncclMemAlloc, cudaMalloc or cudaHostAlloc";
    return window;
  }
  const auto rules = GpuDirectRules::from_environment();
  if (!rules.ok()) {
    window.why_not = rules.error().text;
    return window;
  }
  GpuDirectFacts facts = gpu_direct_facts(device, network, near);
  facts.reads_back = false;  // only the program knows when: it has seen a word
  const GpuDirectVerdict receives = gpu_direct(*rules, facts, false);
  const GpuDirectVerdict sends = gpu_direct(*rules, facts, true);
  const bool written = !receives.kinds.empty(), sent = !sends.kinds.empty();
  if (!written) window.why_not = receives.why_not;
  add_sides(window.named, bytes, device, written ? receives : sends, &window);
  for (WindowSide& side : window.ways) side.written = written, side.sent = sent;
  return window;
}

}  // namespace rondo::gpu
