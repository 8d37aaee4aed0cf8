// SPDX-License-Identifier: Apache-2.0
// Copies, fills and stream memory operations.
#include <fmt/core.h>

#include <algorithm>
#include <cstring>

#include "tests/simt/device/calls.h"
#include "tests/simt/device/platform.h"
#include "tests/simt/machine/violation.h"

namespace rondo::simt::calls {
namespace {

constexpr std::size_t kAtOnce = 64 << 10;  // bytes that a copy moves before other work runs

bool known(const void* pointer) {
  return platform().memory.find(reinterpret_cast<std::uint64_t>(pointer)) != nullptr;
}

// Current address of the bytes; an unknown pointer is host memory. Null: a violation was reported.
std::byte* bytes_at(const void* pointer, std::size_t bytes, const char* what) {
  const auto address = reinterpret_cast<std::uint64_t>(pointer);
  const Allocation* const found = platform().memory.find(address);
  if (found == nullptr) return reinterpret_cast<std::byte*>(address);
  const bool holds = found->holds(address, bytes);
  const bool early = found->pooled && !found->given_out_by_pool();
  if (!found->freed && holds && !early) return found->for_copies() + (address - found->begin);
  report(found->freed ? Violation::kUseAfterFree : Violation::kBadAccess,
         fmt::format("a {} of {} bytes at {:#x} {} an allocation of {} bytes at {:#x}", what, bytes,
                     address,
                     found->freed ? "touches what was freed:"
                     : holds      ? "comes before"
                                  : "leaves",
                     found->bytes, found->begin));
  return nullptr;
}

GpuError bad_range(const void* pointer, std::size_t bytes) {
  const auto address = reinterpret_cast<std::uint64_t>(pointer);
  const Allocation* const found = platform().memory.find(address);
  return found != nullptr && !found->freed && !found->holds(address, bytes) ? kGpuInvalidValue
                                                                            : kGpuSuccess;
}

// Between devices without P2P, CUDA stages copies of cudaMalloc's memory. Memory with an access
// list of its own (virtual memory, pools) must list the device of the stream. Under the mutex.
GpuError not_listed(const void* pointer, int device) {
  Platform& p = platform();
  const Allocation* const found = p.memory.find(reinterpret_cast<std::uint64_t>(pointer));
  if (found == nullptr || found->freed || found->kind != MemoryKind::kDevice) return kGpuSuccess;
  if (!found->pooled && !p.shareables.contains(found->host_alias)) return kGpuSuccess;
  const std::uint32_t listed =
      found->pooled ? p.who_may_touch_pool(found->device) : found->access.load();
  return (listed >> device & 1) != 0 ? kGpuSuccess : kGpuInvalidValue;
}

void fail_device(int device) {
  Platform& p = platform();
  const std::lock_guard lock(p.engine.mutex());
  p.devices[static_cast<std::size_t>(device)].sticky = kGpuIllegalAddress;
}

// Runs move(done, bytes) piece by piece.
template <class Move>
std::function<Step()> piecewise(std::size_t bytes, Move move) {
  return [bytes, move, done = std::size_t{0}]() mutable {
    const std::size_t now = std::min(kAtOnce, bytes - done);
    if (!move(done, now)) return Step::kOver;
    done += now;
    return done == bytes ? Step::kOver : Step::kMoved;
  };
}

Operation copying(void* to, const void* from, std::size_t bytes, int device,
                  std::shared_ptr<std::vector<std::byte>> staged) {
  return {"copy", device, [=](Command& command) {
            const int on = command.device;
            command.step = piecewise(bytes, [=](std::size_t done, std::size_t now) {
              std::byte* const target = bytes_at(static_cast<std::byte*>(to) + done, now, "copy");
              const std::byte* const source =
                  staged != nullptr
                      ? staged->data() + done
                      : bytes_at(static_cast<const std::byte*>(from) + done, now, "copy");
              if (target == nullptr || source == nullptr) {
                fail_device(on);
                return false;
              }
              std::memmove(target, source, now);
              return true;
            });
          }};
}

bool satisfied(std::uint32_t now, std::uint32_t value, GpuWait how) {
  switch (how) {
    case GpuWait::kGreaterOrEqual:
      return static_cast<std::int32_t>(now - value) >= 0;
    case GpuWait::kEqual:
      return now == value;
    case GpuWait::kAnd:
      break;
  }
  return (now & value) != 0;
}

GpuError bad_word(const void* at) {
  const auto address = reinterpret_cast<std::uint64_t>(at);
  const Allocation* const found = platform().memory.find(address);
  if (address % sizeof(std::uint32_t) != 0 || found == nullptr || found->freed ||
      !found->holds(address, sizeof(std::uint32_t))) {
    return kGpuInvalidValue;
  }
  return kGpuSuccess;
}

std::uint32_t* word_at(const void* at, const char* what) {
  return reinterpret_cast<std::uint32_t*>(bytes_at(at, sizeof(std::uint32_t), what));
}

}  // namespace

GpuError copy(void* to, const void* from, std::size_t bytes, GpuCopy kind, GpuStream handle) {
  Platform& p = platform();
  if (const GpuError error = p.trouble()) return error;
  if (bytes == 0) return kGpuSuccess;
  if (to == nullptr || from == nullptr) return kGpuInvalidValue;
  if (bad_range(to, bytes) || bad_range(from, bytes)) return kGpuInvalidValue;
  const bool within = kind == GpuCopy::kDeviceToDevice;  // pinned memory is an address there, too
  if (within && !(known(to) && known(from))) return kGpuInvalidValue;
  std::unique_lock lock(p.engine.mutex());
  Stream* const stream = p.stream(handle);
  if (stream == nullptr) return kGpuInvalidHandle;
  for (const void* const end : {static_cast<const void*>(to), from})
    if (const GpuError error = not_listed(end, stream->device)) return error;
  // Pageable memory: read during the call, and written before the call returns.
  const bool capturing = stream->capture != nullptr;
  std::shared_ptr<std::vector<std::byte>> staged;
  if (!capturing && !known(from)) {
    const auto* const source = static_cast<const std::byte*>(from);
    staged = std::make_shared<std::vector<std::byte>>(source, source + bytes);
  }
  const GpuError error =
      p.submit_locked(*stream, copying(to, from, bytes, stream->device, std::move(staged)));
  if (error != kGpuSuccess || capturing || known(to)) return error;
  p.engine.wait(lock, [newest = stream->newest] { return bool(newest->over); });
  return p.trouble();
}

GpuError copy_and_wait(void* to, const void* from, std::size_t bytes, GpuCopy kind) {
  Platform& p = platform();
  {
    const std::lock_guard lock(p.engine.mutex());
    if (const GpuError error = p.unsafe_while_capturing()) return error;
  }
  if (const GpuError error = copy(to, from, bytes, kind, kLegacyStream)) return error;
  return synchronize_stream(kLegacyStream);
}

GpuError fill(void* at, int byte, std::size_t bytes, GpuStream handle) {
  Platform& p = platform();
  if (const GpuError error = p.trouble()) return error;
  if (bytes == 0) return kGpuSuccess;
  if (!known(at) || bad_range(at, bytes)) return kGpuInvalidValue;
  const std::lock_guard lock(p.engine.mutex());
  Stream* const stream = p.stream(handle);
  if (stream == nullptr || stream->device != current_device()) return kGpuInvalidHandle;
  return p.submit_locked(*stream, {"fill", stream->device, [=](Command& command) {
                                     const int on = command.device;
                                     command.step =
                                         piecewise(bytes, [=](std::size_t done, std::size_t now) {
                                           std::byte* const target = bytes_at(
                                               static_cast<std::byte*>(at) + done, now, "fill");
                                           if (target == nullptr) {
                                             fail_device(on);
                                             return false;
                                           }
                                           std::memset(target, byte, now);
                                           return true;
                                         });
                                   }});
}

GpuError stream_write32(GpuStream handle, void* at, std::uint32_t value) {
  Platform& p = platform();
  if (const GpuError error = p.trouble_without_context("cuStreamWriteValue32")) return error;
  if (const GpuError error = bad_word(at)) return error;
  const std::lock_guard lock(p.engine.mutex());
  Stream* const stream = p.stream(handle);
  if (stream == nullptr) return kGpuInvalidHandle;
  return p.submit_locked(*stream, {"memory write", stream->device, [=](Command& command) {
                                     command.step = [=, on = command.device] {
                                       if (std::uint32_t* const word = word_at(at, "write")) {
                                         __atomic_store_n(word, value, __ATOMIC_RELEASE);
                                       } else {
                                         fail_device(on);
                                       }
                                       return Step::kOver;
                                     };
                                   }});
}

GpuError stream_wait32(GpuStream handle, void* at, std::uint32_t value, GpuWait how) {
  Platform& p = platform();
  if (const GpuError error = p.trouble_without_context("cuStreamWaitValue32")) return error;
  if (const GpuError error = bad_word(at)) return error;
  const std::lock_guard lock(p.engine.mutex());
  Stream* const stream = p.stream(handle);
  if (stream == nullptr) return kGpuInvalidHandle;
  return p.submit_locked(*stream, {"memory wait", stream->device, [=](Command& command) {
                                     command.step = [=, on = command.device] {
                                       const std::uint32_t* const word = word_at(at, "wait");
                                       if (word == nullptr) {
                                         fail_device(on);
                                         return Step::kOver;
                                       }
                                       return satisfied(__atomic_load_n(word, __ATOMIC_ACQUIRE),
                                                        value, how)
                                                  ? Step::kOver
                                                  : Step::kWaits;
                                     };
                                   }});
}

}  // namespace rondo::simt::calls
