#include "collectives/gpu/shared_device.h"

#include <algorithm>

#include "base/env.h"
#include "collectives/gpu/device.h"
#include "kernels/cuda/direct_args.h"

namespace rondo::gpu {
namespace {

constexpr std::uint64_t kLeastStaging = 64 << 10;

// The party (process) of every rank, in the order of their first ranks.
std::vector<int> parties_of(const std::vector<ProcessId>& processes) {
  std::vector<ProcessId> seen;
  std::vector<int> parties;
  for (const ProcessId& process : processes) {
    auto at = std::find(seen.begin(), seen.end(), process);
    if (at == seen.end()) at = seen.insert(seen.end(), process);
    parties.push_back(static_cast<int>(at - seen.begin()));
  }
  return parties;
}

std::uint64_t staging_bytes() {
  constexpr std::uint64_t kRound = 4096;
  const auto wanted = static_cast<std::uint64_t>(
      std::max<std::int64_t>(env::get_int("RONDO_GPU_STAGING"), kLeastStaging));
  return (wanted + kRound - 1) / kRound * kRound;
}

// Whether this rank's GPU reaches the memory of rank `peer`'s.
Done check_reach(const SharedDeviceRequest& request, int peer) {
  const auto& wanted = request.identities[peer];
  if (wanted == request.identities[request.rank]) return done();
  const GpuApi& api = *gpu_api();
  int devices = 0;
  RONDO_CHECK_OK(check(api.device_count(&devices), "cudaGetDeviceCount"));
  for (int device = 0; device < devices; ++device) {
    RONDO_TRY(const auto identity, device_identity(device));
    if (identity != wanted) continue;
    int can = 0;
    RONDO_CHECK_OK(
        check(api.can_access_peer(&can, request.device, device), "cudaDeviceCanAccessPeer"));
    if (can != 0) return done();
    return fail(Status::kInvalidUsage,
                "the GPUs of rank {} and rank {}, two processes, cannot reach each other's memory, "
                "and staging through the host is not there yet: use GPUs with P2P, let all "
                "processes use one GPU, or set RONDO_DEVICE=host and give host memory",
                request.rank, peer);
  }
  return fail(Status::kInvalidUsage,
              "rank {} does not see the GPU of rank {}, another process: let every process see all "
              "GPUs (CUDA_VISIBLE_DEVICES) and choose its own by cudaSetDevice, let all processes "
              "use one GPU, or set RONDO_DEVICE=host and give host memory",
              request.rank, peer);
}

}  // namespace

Result<std::vector<std::byte>> device_identity(int device) {
  std::vector<std::byte> identity(16);
  RONDO_CHECK_OK(
      check(gpu_api()->device_uuid(reinterpret_cast<unsigned char*>(identity.data()), device),
            "cuDeviceGetUuid"));
  return identity;
}

Done check_shared_device(const SharedDeviceRequest& request) {
  if (!request.one_host)
    return fail(Status::kInvalidUsage,
                "ranks on CUDA devices of several hosts (or with NCCL_SHM_DISABLE=1) are not there "
                "yet: run them on one host, or set RONDO_DEVICE=host and give host memory");
  const std::size_t own = static_cast<std::size_t>(request.rank);
  for (std::size_t r = 0; r < request.identities.size(); ++r) {
    if (request.processes[r] == request.processes[own] &&
        request.identities[r] != request.identities[own])
      return fail(Status::kInvalidUsage,
                  "rank {} and rank {} are of one process and on different GPUs, and other ranks "
                  "are of other processes, which is not there yet: give each process one GPU, or "
                  "run all ranks as threads of one process",
                  own, r);
    // Everything passes through the memory of the leader's GPU.
    if (own == 0 || r == 0) RONDO_CHECK_OK(check_reach(request, static_cast<int>(r)));
  }
  if (request.processes.size() > cuda::kMostDirectRanks)
    return fail(Status::kInvalidUsage, "{} ranks on one GPU are too many: at most {}",
                request.processes.size(), cuda::kMostDirectRanks);
  return done();
}

bool speaks_for_process(const SharedDeviceRequest& request) {
  const auto& all = request.processes;
  return std::find(all.begin(), all.end(), all[request.rank]) - all.begin() == request.rank;
}

Result<std::shared_ptr<ProcessTeam>> join_processes(const SharedDeviceRequest& request) {
  const DeviceScope scope(request.device);
  RONDO_CHECK_OK(scope.entered());
  const RelaxedCapture relaxed;
  RONDO_CHECK_OK(check(gpu_api()->free_memory(nullptr), "cudaFree"));  // makes the context current
  ProcessTeam::Seats seats;
  seats.device = request.device;
  seats.party_of = parties_of(request.processes);
  seats.party = seats.party_of[request.rank];
  int multiprocessors = 0;
  RONDO_CHECK_OK(
      check(gpu_api()->attribute(&multiprocessors, GpuAttribute::kMultiprocessors, request.device),
            "cuDeviceGetAttribute"));
  seats.most_ctas = multiprocessors * cuda::kDirectCtas;
  const int ranks = static_cast<int>(request.processes.size());
  const int parties = *std::max_element(seats.party_of.begin(), seats.party_of.end()) + 1;
  std::vector<Fd> sockets;
  std::unique_ptr<ProcessBoard> board;
  if (seats.party == 0) {
    RONDO_TRY(board, ProcessBoard::create({ranks, parties, staging_bytes()}));
    sockets.resize(parties);
    for (int heard = 1; heard < parties; ++heard) {
      RONDO_TRY(Fd socket, shm::accept_unix(*request.listener, request.patience));
      RONDO_TRY(const shm::FdMessage hello, shm::receive_fds(socket.get(), request.patience));
      if (hello.value < 1 || hello.value >= parties || sockets[hello.value])
        return fail(Status::kInternalError, "process {} of {} on this GPU joined twice",
                    hello.value, parties);
      const int fd = board->fd();
      RONDO_CHECK_OK(shm::send_fds(socket.get(), 0, {&fd, 1}, request.patience));
      sockets[hello.value] = std::move(socket);
    }
  } else {
    RONDO_TRY(Fd socket, shm::connect_unix(request.sockets[0], request.patience));
    RONDO_CHECK_OK(shm::send_fds(socket.get(), seats.party, {}, request.patience));
    RONDO_TRY(const shm::FdMessage reply, shm::receive_fds(socket.get(), request.patience));
    if (reply.fds.size() != 1)
      return fail(Status::kInternalError, "rank 0's process sent no shared memory");
    RONDO_TRY(board, ProcessBoard::open(reply.fds[0].get(), ranks, parties));
    sockets.push_back(std::move(socket));
  }
  return ProcessTeam::make(std::move(seats), std::move(board), std::move(sockets));
}

}  // namespace rondo::gpu
