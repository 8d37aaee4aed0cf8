// SPDX-License-Identifier: Apache-2.0
#include "transport/proxy/direct_memory.h"

#include <cassert>

#include "transport/cuda/device.h"
#include "transport/memory/memory_registry.h"

namespace rondo::gpu {
namespace {

constexpr std::size_t kBlock = 2 << 20;  // granularity of mapping and registration
constexpr std::size_t kPiece = 256;

std::size_t rounded(std::size_t bytes, std::size_t to) { return (bytes + to - 1) / to * to; }

Status flush(int device) {
  const DeviceScope scope(device);
  RONDO_CHECK_OK(scope.entered());
  return check(gpu_api()->flush_direct_writes(), "cuFlushGPUDirectRDMAWrites");
}

}  // namespace

Result<std::shared_ptr<const DirectMemory>> DirectMemory::make(std::size_t bytes, int device,
                                                               net::Memory::Kind kind,
                                                               const GpuDirectVerdict& verdict) {
  const DeviceScope scope(device);
  RONDO_CHECK_OK(scope.entered());
  const RelaxedCapture relaxed;
  std::shared_ptr<DirectMemory> made(new DirectMemory);
  const std::size_t whole = rounded(bytes, kBlock);
  RONDO_TRY(made->owner_, memory_registry().allocate_own(whole, device));
  made->memory_ = {{made->owner_.get(), whole}, kind};
  if (kind == net::Memory::Kind::kDmabuf) {
    int file = -1;
    RONDO_CHECK_OK(check(gpu_api()->dmabuf_export(&file, made->owner_.get(), whole),
                         "cuMemGetHandleForAddressRange"));
    made->file_.reset(file);
    made->memory_.dmabuf = file;
  }
  made->memory_.read_back = verdict.reads_back;
  if (verdict.flushes) made->memory_.flush = [device] { return flush(device); };
  return std::shared_ptr<const DirectMemory>(std::move(made));
}

Result<std::unique_ptr<DirectArena>> DirectArena::open(int device, const GpuDirectVerdict& verdict,
                                                       std::size_t bytes, const Take& take) {
  std::string why = verdict.why_not;
  for (const net::Memory::Kind kind : verdict.kinds) {
    std::unique_ptr<DirectArena> made(new DirectArena(device, kind, verdict));
    Status added = made->add_block(bytes);
    if (added.ok()) added = take(made->newest_);
    if (added.ok()) return made;
    why += (why.empty() ? "" : "; ") + added.error().text;
  }
  return fail(StatusCode::kSystemError, "{}", why);
}

Status DirectArena::add_block(std::size_t bytes) {
  RONDO_TRY(newest_, DirectMemory::make(bytes, device_, kind_, verdict_));
  used_ = 0;
  bytes_ += newest_->memory().bytes.size();
  return ok_status();
}

Result<DirectPiece> DirectArena::take(std::size_t bytes) {
  assert(bytes > 0 && newest_ != nullptr && used_ <= newest_->memory().bytes.size());
  const std::size_t wanted = rounded(bytes, kPiece);
  if (newest_->memory().bytes.size() - used_ < wanted) RONDO_CHECK_OK(add_block(wanted));
  std::byte* const at = newest_->memory().bytes.data() + used_;
  used_ += wanted;
  return DirectPiece{{newest_, at}, newest_};
}

}  // namespace rondo::gpu
