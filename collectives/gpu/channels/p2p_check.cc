// SPDX-License-Identifier: Apache-2.0
#include "collectives/gpu/channels/p2p_check.h"

#include <algorithm>
#include <utility>

#include "base/poll_until.h"
#include "kernels/cuda/kernels.h"
#include "transport/cuda/device.h"

namespace rondo::gpu {
namespace {

using cuda::P2pProbeArgs;

constexpr double kProbeSeconds = 10;                // until the error that the kernel does not end
constexpr std::uint64_t kPatienceNs = 100'000'000;  // for a peer whose kernel begins later

}  // namespace

P2pCheck::P2pCheck(int device, std::vector<Block> blocks, std::vector<Pair> pairs)
    : api_(*gpu_api()), device_(device), blocks_(std::move(blocks)), pairs_(std::move(pairs)) {}

P2pCheck::~P2pCheck() {
  if (stream_ != nullptr) api_.destroy_stream(stream_);
}

// Not cudaStreamSynchronize: an access by P2P that does not work may never end.
Status P2pCheck::finish() const {
  GpuError state = kGpuNotReady;
  const auto is_over = [&] { return (state = api_.query_stream(stream_)) != kGpuNotReady; };
  if (!poll_until(is_over, seconds_from_now(kProbeSeconds)))
    return fail(StatusCode::kSystemError,
                "a kernel that accesses memory of other GPUs from CUDA device {} does not end "
                "within {} s, though the driver offers P2P between them: set NCCL_P2P_DISABLE=1",
                device_, kProbeSeconds);
  return check(state, "a check of P2P (NCCL_P2P_DISABLE=1 avoids P2P)");
}

Status P2pCheck::launch(std::span<const Pair> pairs, bool sends) const {
  P2pProbeArgs args{};
  args.sends = sends;
  args.limit_ns = sends ? kPatienceNs : 0;
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    const Block &own = blocks_[pairs[i].own], &peer = blocks_[pairs[i].peer];
    args.pair[i] = {own.at,
                    peer.at,
                    own.mark,
                    peer.mark,
                    static_cast<std::uint32_t>(pairs[i].own),
                    static_cast<std::uint32_t>(pairs[i].peer),
                    result_at(pairs[i].peer)};
  }
  GpuLaunch made;
  made.kernel = cuda::kP2pProbeKernel;
  made.grid = static_cast<unsigned>(pairs.size());
  made.block = 32;
  made.arguments = &args;
  made.argument_bytes = sizeof(args);
  made.remote_domain = true;
  return check(api_.launch(made, stream_), "a kernel launch of a check of P2P");
}

Result<P2pCheck::ProbeResults> P2pCheck::probe(bool sends) const {
  constexpr std::size_t kAtOnce = P2pProbeArgs::kMaxPairs;
  for (std::size_t i = 0; i < pairs_.size(); i += kAtOnce)
    RONDO_CHECK_OK(
        launch(std::span(pairs_).subspan(i, std::min(kAtOnce, pairs_.size() - i)), sends));
  RONDO_CHECK_OK(finish());
  ProbeResults results(pairs_.size());
  for (std::size_t i = 0; i < pairs_.size(); ++i)
    RONDO_CHECK_OK(
        check(api_.copy(&results[i], blocks_[pairs_[i].own].at + result_at(pairs_[i].peer),
                        sizeof(results[i]), GpuCopy::kDeviceToHost, stream_),
              "cudaMemcpyAsync of a check of P2P"));
  RONDO_CHECK_OK(finish());
  return results;
}

Status P2pCheck::write() {
  if (pairs_.empty()) return ok_status();
  const DeviceScope scope(device_);
  RONDO_CHECK_OK(scope.entered());
  RONDO_CHECK_OK(check(api_.load_kernel(cuda::kP2pProbeKernel), "loading kernels"));
  RONDO_CHECK_OK(check(api_.create_stream(&stream_, 0), "cudaStreamCreate"));
  RONDO_TRY(at_once_, probe(true));
  return ok_status();
}

Result<std::vector<P2pCheck::Pair>> P2pCheck::broken_pairs() {
  std::vector<Pair> broken;
  if (pairs_.empty()) return broken;
  const DeviceScope scope(device_);
  RONDO_CHECK_OK(scope.entered());
  RONDO_TRY(const ProbeResults later, probe(false));
  for (std::size_t i = 0; i < pairs_.size(); ++i)
    if (at_once_[i] == P2pProbeArgs::kWrong || later[i] != P2pProbeArgs::kWell)
      broken.push_back(pairs_[i]);
  return broken;
}

}  // namespace rondo::gpu
