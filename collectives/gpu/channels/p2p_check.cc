// SPDX-License-Identifier: Apache-2.0
#include "collectives/gpu/channels/p2p_check.h"

#include <utility>

#include "base/poll_until.h"
#include "transport/cuda/device.h"

namespace rondo::gpu {
namespace {

constexpr double kCopySeconds = 10;  // until the error that copies do not end

}  // namespace

P2pCheck::P2pCheck(int device, std::vector<Block> blocks, std::vector<Pair> pairs)
    : api_(*gpu_api()), device_(device), blocks_(std::move(blocks)), pairs_(std::move(pairs)) {}

P2pCheck::~P2pCheck() {
  if (stream_ != nullptr) api_.destroy_stream(stream_);
}

Status P2pCheck::copy(void* to, const void* from, std::size_t bytes, GpuCopy kind) const {
  return check(api_.copy(to, from, bytes, kind, stream_), "cudaMemcpyAsync of a check of P2P");
}

// Not cudaStreamSynchronize: a copy by P2P that does not work may never end.
Status P2pCheck::finish() const {
  GpuError state = kGpuNotReady;
  const auto is_over = [&] { return (state = api_.query_stream(stream_)) != kGpuNotReady; };
  if (!poll_until(is_over, seconds_from_now(kCopySeconds)))
    return fail(StatusCode::kSystemError,
                "copies from CUDA device {} to memory of other GPUs do not end, though the driver "
                "offers P2P between them: set NCCL_P2P_DISABLE=1",
                device_);
  return check(state, "copies of a check of P2P (NCCL_P2P_DISABLE=1 avoids P2P)");
}

Status P2pCheck::write() {
  if (pairs_.empty()) return ok_status();
  const DeviceScope scope(device_);
  RONDO_CHECK_OK(scope.entered());
  RONDO_CHECK_OK(check(api_.create_stream(&stream_, 0), "cudaStreamCreate"));
  constexpr std::size_t kBytes = sizeof(std::uint64_t);
  std::size_t marked = blocks_.size();
  for (const auto& [own, peer] : pairs_) {
    std::byte* const mark = word(own, own);
    if (std::exchange(marked, own) != own)
      RONDO_CHECK_OK(copy(mark, &blocks_[own].mark, kBytes, GpuCopy::kHostToDevice));
    RONDO_CHECK_OK(copy(word(peer, own), mark, kBytes, GpuCopy::kDeviceToDevice));
  }
  return finish();
}

Result<std::vector<P2pCheck::Pair>> P2pCheck::broken_pairs() {
  std::vector<Pair> broken;
  if (pairs_.empty()) return broken;
  const DeviceScope scope(device_);
  RONDO_CHECK_OK(scope.entered());
  const std::size_t n = blocks_.size();
  for (const auto& [own, peer] : pairs_)
    RONDO_CHECK_OK(copy(word(own, n + peer), word(peer, peer), sizeof(std::uint64_t),
                        GpuCopy::kDeviceToDevice));
  RONDO_CHECK_OK(finish());
  std::vector<std::uint64_t> words(2 * n);
  std::size_t read = n;
  for (const Pair& pair : pairs_) {
    if (std::exchange(read, pair.own) != pair.own) {
      RONDO_CHECK_OK(copy(words.data(), word(pair.own, 0), bytes_for(n), GpuCopy::kDeviceToHost));
      RONDO_CHECK_OK(finish());
    }
    const std::uint64_t mark = blocks_[pair.peer].mark;
    if (words[pair.peer] != mark || words[n + pair.peer] != mark) broken.push_back(pair);
  }
  return broken;
}

}  // namespace rondo::gpu
