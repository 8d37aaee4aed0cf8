// SPDX-License-Identifier: Apache-2.0
// A program of NCCL's host API with kernels of its device API beside it, as benchmarks of NCCL are.
// check_device_api.sh compiles it as C++ and as CUDA, on our headers alone, and runs it on host
// memory: it asks the communicator, and goes the host's way where there is no device API.
#include <cstdio>
#include <cstring>
#include <vector>

#include "nccl.h"
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 28, 0)
#include "nccl_device.h"
#endif

// As where a program also runs on a libnccl.so.2 that is too old to have them.
#pragma weak ncclDevCommCreate
#pragma weak ncclDevCommDestroy

#ifdef __CUDACC__
template <class T>
__global__ void sum_by_addresses(ncclWindow_t input, ncclWindow_t output, size_t count,
                                 ncclDevComm comm) {
  ncclLsaBarrierSession<ncclCoopCta> barrier{ncclCoopCta(), comm, ncclTeamLsa(comm),
                                             comm.lsaBarrier, blockIdx.x};
  barrier.sync(ncclCoopCta(), cuda::memory_order_acquire);
  T* sum = static_cast<T*>(ncclGetLocalPointer(output, 0));
  for (size_t i = threadIdx.x; i < count; i += blockDim.x) {
    T value = 0;
    for (int peer = 0; peer < comm.lsaSize; ++peer)
      value += static_cast<T*>(ncclGetLsaPointer(input, 0, peer))[i];
    sum[i] = value;
  }
  barrier.sync(ncclCoopCta(), cuda::memory_order_release);
}

template <class T>
__global__ void copy_by_multicast(ncclWindow_t input, ncclWindow_t output, ncclDevComm comm) {
  ncclLsaBarrierSession<ncclCoopCta> barrier{ncclCoopCta(), comm, ncclTeamTagLsa(), blockIdx.x,
                                             true};
  barrier.sync(ncclCoopCta(), cuda::memory_order_relaxed);
  T* from = static_cast<T*>(ncclGetPeerPointer(input, 0, ncclTeamWorld(comm), comm.rank));
  static_cast<T*>(ncclGetLsaMultimemPointer(output, 0, comm))[threadIdx.x] = from[threadIdx.x];
  const ncclTeam lsa = ncclTeamLsa(comm), rail = ncclTeamRail(comm);
  ncclSymPtr<T> at = ncclSymPtr<T>(output, 64) + threadIdx.x;
  at += 1;
  if (ncclTeamRankIsMember(lsa, rail, 0) && ncclCoopLanes(3u).thread_rank() == 0)
    *(at - 1).lsaPtr(ncclTeamRankToTeam(lsa, rail, rail.rank)) = *at.peerPtr(lsa, 0);
  *at.lsaMultimemPtr(comm) = *at.localPtr() + ncclTeamRankInDifference(ncclTeamWorld(comm), lsa, 0);
}

__global__ void sum_and_exchange(ncclWindow_t input, float* output, ncclLLA2AHandle slots,
                                 ncclDevComm comm) {
  ncclCoopCta coop;
  ncclLsaReduceSum<float>(coop, input, 0, output, 1024, comm);
  ncclLsaCopy<float>(coop, output, input, 4096, 1024u, ncclTeamLsa(comm));
  ncclLsaReduceSumCopy<double>(coop, input, 0, input, 8192, size_t{100}, comm);
  ncclLocalReduceSum<int>(
      coop, [=](int i) { return static_cast<int*>(ncclGetLsaPointer(input, 0, i)); }, 2,
      reinterpret_cast<int*>(output), 7);
  ncclLLA2ASession<ncclCoopCta> session{coop, comm, ncclTeamLsa(comm), slots, blockIdx.x, 64};
  session.send(0, static_cast<int>(threadIdx.x), 1.5);
  session.bcast(63, 2u);
  output[threadIdx.x] = session.recvReduce<4, float>(
      0, 8, 1, [](float one) { return one; }, [](float a, float b) { return a + b; });
  session.endEpoch(coop);
}

__global__ void put_to_peers(ncclWindow_t input, ncclWindow_t output, size_t bytes,
                             ncclDevComm comm) {
  ncclGin gin{comm, 0};
  const uint64_t before = gin.readSignal(blockIdx.x);
  ncclBarrierSession<ncclCoopCta> barrier{ncclCoopCta(), ncclTeamTagWorld(), gin, blockIdx.x};
  barrier.sync(ncclCoopCta(), cuda::memory_order_acquire, ncclGinFenceLevel::Relaxed);
  for (int peer = static_cast<int>(threadIdx.x); peer < comm.nRanks; peer += ncclCoopCta().size())
    gin.put(ncclTeamWorld(comm), peer, output, comm.rank * bytes, input, peer * bytes, bytes,
            ncclGin_SignalInc{blockIdx.x});
  gin.waitSignal(ncclCoopCta(), blockIdx.x, before + comm.nRanks);
  gin.flush(ncclCoopWarp());
}

#ifdef NOT_THERE
__global__ void by_a_name_that_is_not_there(float* memory) { NOT_THERE; }
#endif

void launch(const std::vector<ncclDevComm>& comms, ncclWindow_t window) {
  for (const ncclDevComm& comm : comms) {
    sum_by_addresses<float><<<1, 32>>>(window, window, 1, comm);
    copy_by_multicast<double><<<1, 32>>>(window, window, comm);
    put_to_peers<<<1, 32>>>(window, window, 8, comm);
  }
}
#else
void launch(const std::vector<ncclDevComm>&, ncclWindow_t) {}
#endif

namespace {

#define CHECK(condition)                                         \
  if (!(condition)) {                                            \
    std::printf("line %d: %s is false\n", __LINE__, #condition); \
    return 1;                                                    \
  }

bool refused(ncclResult_t result) {
  return result == ncclInvalidUsage &&
         std::strstr(ncclGetLastError(nullptr), "use the host API") != nullptr;
}

int refuses_everything(ncclComm_t comm) {
  ncclDevCommRequirements requirements = NCCL_DEV_COMM_REQUIREMENTS_INITIALIZER;
  requirements.lsaMultimem = true;
  requirements.lsaBarrierCount = requirements.barrierCount = requirements.ginSignalCount = 16;
  requirements.ginConnectionType = NCCL_GIN_CONNECTION_FULL;
  std::vector<ncclDevComm> comms(1);
  CHECK(ncclDevCommCreate != nullptr);
  CHECK(refused(ncclDevCommCreate(comm, &requirements, comms.data())));
  CHECK(refused(ncclDevCommDestroy(comm, comms.data())));
  CHECK(comms[0].nRanks == 0 && comms[0].windowTable == nullptr);
  void* pointer = nullptr;
  CHECK(ncclGetLsaDevicePointer(nullptr, 0, 0, &pointer) == ncclInvalidArgument);
  CHECK(ncclGetPeerDevicePointer(nullptr, 0, 0, &pointer) == ncclInvalidArgument);
  CHECK(ncclGetMultimemDevicePointer(nullptr, 0, ncclMultimemHandle_t{}, &pointer) ==
        ncclInvalidArgument);
  ncclDevResourceRequirements resources{};
  ncclLsaBarrierHandle barrier{};
  CHECK(ncclLsaBarrierCreateRequirement(ncclTeam{4, 0, 1}, 2, &barrier, &resources) == ncclSuccess);
  CHECK(resources.bufferSize == 4 * (3 * 2 + 2 * 4) && barrier.nBarriers == 2);
  CHECK(resources.outBufferHandle == &barrier.bufHandle);
  ncclGinBarrierHandle over_gin{};
  CHECK(ncclGinBarrierCreateRequirement(comm, ncclTeam{}, 1, &over_gin, &resources) ==
        ncclInvalidUsage);
  return 0;
}

// A program may divide by these before it asks whether there is a device API.
int answers_teams(ncclComm_t comm) {
  CHECK(ncclTeamWorld(comm).nRanks == 1 && ncclTeamRail(comm).nRanks == 1);
  CHECK(ncclTeamLsa(comm).nRanks == 1 && ncclTeamCft(comm).nRanks == 1);
  CHECK(ncclTeamRankToWorld(comm, ncclTeamLsa(comm), 0) == 0);
  CHECK(ncclLLA2ACalcSlots(3, 9) == 6);
  return 0;
}

}  // namespace

int main(int argc, char**) {
  if (argc > 1) launch({}, nullptr);
  ncclUniqueId id;
  ncclComm_t comm;
  CHECK(ncclGetUniqueId(&id) == ncclSuccess);
  CHECK(ncclCommInitRank(&comm, 1, id, 0) == ncclSuccess);
  ncclCommProperties_t properties = NCCL_COMM_PROPERTIES_INITIALIZER;
  CHECK(ncclCommQueryProperties(comm, &properties) == ncclSuccess);
  CHECK(properties.nRanks == 1 && properties.rank == 0);
  CHECK(!properties.deviceApiSupport && !properties.multimemSupport);
  CHECK(properties.ginType == NCCL_GIN_TYPE_NONE);
  CHECK(properties.nLsaTeams == 1);
  if (refuses_everything(comm) != 0 || answers_teams(comm) != 0) return 1;
  float values[2] = {1, 2};
  CHECK(ncclAllReduce(values, values, 2, ncclFloat, ncclSum, comm, nullptr) == ncclSuccess);
  CHECK(ncclCommDestroy(comm) == ncclSuccess);
  std::printf("host memory has no device API, the host API works\n");
  return 0;
}
