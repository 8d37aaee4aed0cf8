// SPDX-License-Identifier: Apache-2.0
// Memory of other processes: IPC handles of cudaMalloc's memory.
#include <fcntl.h>
#include <fmt/core.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "tests/simt/device/calls.h"
#include "tests/simt/device/platform.h"

namespace rondo::simt::calls {
namespace {

constexpr std::uint32_t kMagic = 0x53494d54;
constexpr GpuError kInvalidContext = 201, kMapFailed = 205;

// Content of an IPC handle: where the owner holds the file, and which part of it.
struct Handle {
  std::uint32_t magic;
  std::int32_t process;
  std::int32_t file;
  std::int32_t device;
  std::uint64_t offset;
  std::uint64_t bytes;
  std::uint64_t address;
  std::uint64_t unused[3];
};
static_assert(sizeof(Handle) == sizeof(GpuIpcHandle));

}  // namespace

GpuError ipc_export(GpuIpcHandle* handle, void* pointer) {
  Platform& p = platform();
  if (const GpuError error = p.trouble()) return error;
  const Allocation* const found = p.memory.find(reinterpret_cast<std::uint64_t>(pointer));
  if (found == nullptr || found->freed || found->kind != MemoryKind::kDevice || found->imported ||
      found->pooled)
    return kGpuInvalidValue;
  const Handle contents{kMagic,       p.process,    found->file, found->device, found->file_offset,
                        found->bytes, found->begin, {0, 0, 0}};
  std::memcpy(handle, &contents, sizeof contents);
  return kGpuSuccess;
}

GpuError ipc_open(void** pointer, const GpuIpcHandle& handle) {
  constexpr std::uint64_t kPage = 4096;
  Platform& p = platform();
  if (const GpuError error = p.trouble()) return error;
  Handle contents;
  std::memcpy(&contents, &handle, sizeof contents);
  if (contents.magic != kMagic) return kGpuInvalidHandle;
  if (contents.process == p.process) return kInvalidContext;  // as in CUDA: not one's own
  const int device = current_device();
  if (contents.device >= p.config.devices) return kGpuInvalidDevice;
  if (contents.device != device && !p.reaches(device, contents.device)) return kGpuPeerUnsupported;
  const std::lock_guard lock(p.engine.mutex());
  if (const GpuError error = p.unsafe_while_capturing()) return error;
  const std::string path = fmt::format("/proc/{}/fd/{}", contents.process, contents.file);
  const int file = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (file < 0) return kMapFailed;
  const std::uint64_t in_page = contents.offset % kPage;
  const std::uint64_t reserved = p.memory.reserve(contents.bytes + kPage);
  const std::uint64_t at = reserved + in_page;
  Allocation* const made =
      reserved == 0 ? nullptr
                    : p.memory.map(at, contents.bytes, file, contents.offset, contents.device,
                                   1u << device | 1u << contents.device, true);
  close(file);
  if (made == nullptr) return kMapFailed;
  p.imports[at] = 1;
  *pointer = reinterpret_cast<void*>(at);
  return kGpuSuccess;
}

GpuError ipc_close(void* pointer) {
  Platform& p = platform();
  if (const GpuError error = p.trouble()) return error;
  std::unique_lock lock(p.engine.mutex());
  if (const GpuError error = p.unsafe_while_capturing()) return error;
  const auto address = reinterpret_cast<std::uint64_t>(pointer);
  if (!p.imports.contains(address)) return kGpuInvalidValue;
  if (p.config.frees_wait) p.wait_as_free(lock, current_device());
  p.imports.erase(address);
  p.memory.release(*p.memory.find(address));
  return kGpuSuccess;
}

}  // namespace rondo::simt::calls
