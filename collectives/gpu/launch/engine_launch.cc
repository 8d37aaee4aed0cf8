// SPDX-License-Identifier: Apache-2.0
// Copies between devices by copy engines (CTA policy ZERO), in symmetric windows: the devices meet
// (kernels/cuda/direct_copy.cu), each writes what it sends into the receivers' windows, and they
// meet again. A rank writes at the place where its own buffer is in the window:
//
//   all-gather, all-to-all, broadcast   recvbuff
//   gather                              the root reads sendbuff; in place, where each rank's data
//                                       are a block of the root's recvbuff, it reads that
//   scatter                             recvbuff; in place, a block of the root's sendbuff
//
// Guarantees: also in graphs; a mismatch, death or deadline is noticed in the meetings. After that
// the copies still run, so windows may be written until all ranks' streams have ended. Cost: two
// launches of a CTA and a command a copy; a rank's own block, out of place, is a copy within its
// device.
#include "collectives/gpu/launch/strategies.h"
#include "kernels/cuda/kernels.h"
#include "transport/cuda/device.h"

namespace rondo::gpu {
namespace {

std::byte* at(std::byte* begin, int blocks, std::uint64_t bytes) {
  return begin + static_cast<std::uint64_t>(blocks) * bytes;
}
std::byte* at(const void* begin, int blocks, std::uint64_t bytes) {
  return at(static_cast<std::byte*>(const_cast<void*>(begin)), blocks, bytes);
}

// This rank's copies.
class EngineCopies {
 public:
  EngineCopies(const DeviceLaunch& launch, const PlannedCall& call)
      : stream_(launch.stream),
        record_(call.record),
        own_(launch.own(call)),
        bytes_(record_.count * size_of(record_.type)),
        self_(launch.rank()),
        ranks_(launch.ranks()) {}

  // Each rank begins with the next one, so that not all of them write to one at once.
  Status make() const {
    const bool is_root = record_.root == self_;
    for (int k = 1; k <= ranks_; ++k) {
      const int r = (self_ + k) % ranks_;
      switch (record_.collective) {
        case Collective::kAllGather:
          RONDO_CHECK_OK(copy(own_.send, at(received_by(r), self_, bytes_)));
          break;
        case Collective::kAllToAll:
          RONDO_CHECK_OK(copy(at(own_.send, r, bytes_), at(received_by(r), self_, bytes_)));
          break;
        case Collective::kBroadcast:
          if (is_root) RONDO_CHECK_OK(copy(own_.send, received_by(r)));
          break;
        case Collective::kGather:
          if (is_root) RONDO_CHECK_OK(copy(sent_by(r), at(own_.receive, r, bytes_)));
          break;
        case Collective::kScatter:
          if (is_root) RONDO_CHECK_OK(copy(at(own_.send, r, bytes_), scattered_to(r)));
          break;
        default:
          return fail(StatusCode::kInternalError, "copy engines do not run {}",
                      name(record_.collective));
      }
    }
    return ok_status();
  }

 private:
  Status copy(const void* from, std::byte* to) const {
    if (from == to) return ok_status();
    return check(gpu_api()->copy(to, from, bytes_, GpuCopy::kAny, stream_), "cudaMemcpyAsync");
  }
  std::byte* received_by(int rank) const {
    return in_window(*own_.receive_windows, own_.receive, self_, rank);
  }
  std::byte* sent_by(int rank) const {
    if (rank == self_) return at(own_.send, 0, bytes_);
    if (own_.receive_windows != nullptr) return at(received_by(rank), rank, bytes_);
    return in_window(*own_.send_windows, own_.send, self_, rank);
  }
  std::byte* scattered_to(int rank) const {
    if (rank == self_) return at(own_.receive, 0, bytes_);
    if (own_.send_windows == nullptr) return received_by(rank);
    return at(in_window(*own_.send_windows, own_.send, self_, rank), rank, bytes_);
  }

  const GpuStream stream_;
  const CallRecord& record_;
  const Buffers& own_;
  const std::uint64_t bytes_;
  const int self_, ranks_;
};

}  // namespace

bool is_in_engine_windows(const Call& call) {
  switch (call.record.collective) {
    case Collective::kAllGather:
    case Collective::kAllToAll:
    case Collective::kBroadcast:
      return call.receive_windows != nullptr;
    case Collective::kGather:
    case Collective::kScatter:
      return call.send_windows != nullptr || call.receive_windows != nullptr;
    default:
      return false;
  }
}

bool is_in_place_for_engines(const Call& call) {
  const Collective which = call.record.collective;
  return (which == Collective::kGather && call.receive_windows != nullptr) ||
         (which == Collective::kScatter && call.send_windows != nullptr);
}

Status launch_engines(const DeviceLaunch& call) {
  constexpr int kWarp = 32;
  const int threads = (call.ranks() + kWarp - 1) / kWarp * kWarp;
  cuda::MeetingArgs meeting{};
  meeting.barrier = call.barrier();
  const auto meet = [&](bool begins) -> Status {
    meeting.begins = begins;
    return call.launch(cuda::kMeetingKernel, 1, static_cast<unsigned>(threads),
                       cuda::kBarrierShared, meeting);
  };
  RONDO_CHECK_OK(meet(true));
  RONDO_CHECK_OK(EngineCopies(call, call.first()).make());
  return meet(false);
}

}  // namespace rondo::gpu
