// SPDX-License-Identifier: Apache-2.0
#include "tests/support/nccl_rank.h"

#include <chrono>
#include <cstring>
#include <thread>

namespace rondo::test {

ncclUniqueId NcclRank::id() const {
  static_assert(sizeof(ncclUniqueId) == sizeof(board.id));
  ncclUniqueId result;
  std::memcpy(&result, &board.id, sizeof(result));
  return result;
}

void NcclRank::prepare() {
  if (!on_gpu()) return;
  GPU_OK(gpu_api()->set_device(device));
  GPU_OK(gpu_api()->create_stream(&stream, 0));
}

void NcclRank::join(const ncclConfig_t* config) {
  ASSERT_NO_FATAL_FAILURE(prepare());
  ncclConfig_t own = NCCL_CONFIG_INITIALIZER;
  if (config != nullptr) own = *config;
  ncclComm_t made = nullptr;
  ncclResult_t result = ncclCommInitRankConfig(&made, size, id(), rank, &own);
  while (result == ncclInProgress) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    NCCL_OK(ncclCommGetAsyncError(made, &result));
  }
  NCCL_OK(result);
  comm = made;
}

void NcclRank::leave() {
  if (comm == nullptr) return;
  if (on_gpu()) GPU_OK(gpu_api()->synchronize_stream(stream));
  NCCL_OK(ncclCommDestroy(comm));
  comm = nullptr;
  if (!on_gpu()) return;
  GPU_OK(gpu_api()->destroy_stream(stream));
  EXPECT_EQ(gpu_api()->peek_error(), kGpuSuccess) << "a sticky error was left behind";
}

bool NcclRank::begin(const Job& job) {
  if (!job.create) return true;
  join();
  return comm != nullptr;
}

void NcclRank::end(const Job& job) {
  if (job.create && !testing::Test::HasFailure()) leave();
}

DeviceRanks::DeviceRanks(const std::vector<int>& devices) : Ranks(Layout{{devices}, {}, {}}) {
  std::vector<ncclComm_t> comms(devices.size());
  EXPECT_EQ(ncclCommInitAll(comms.data(), size(), devices.data()), ncclSuccess)
      << ncclGetLastError(nullptr);
  for (int r = 0; r < size(); ++r) {
    (*this)[r].comm = comms[r];
    (*this)[r].prepare();
  }
  gpu_api()->set_device(0);
}

DeviceRanks::~DeviceRanks() {
  for (int r = 0; r < size(); ++r) gpu_api()->synchronize_stream((*this)[r].stream);
  for (int r = 0; r < size(); ++r) EXPECT_EQ(ncclCommDestroy((*this)[r].comm), ncclSuccess);
  for (int r = 0; r < size(); ++r) gpu_api()->destroy_stream((*this)[r].stream);
  EXPECT_EQ(gpu_api()->peek_error(), kGpuSuccess) << "a sticky error was left behind";
}

std::vector<ncclComm_t> DeviceRanks::comms() const {
  std::vector<ncclComm_t> all;
  for (int r = 0; r < size(); ++r) all.push_back((*this)[r].comm);
  return all;
}

std::vector<GpuStream> DeviceRanks::streams() const {
  std::vector<GpuStream> all;
  for (int r = 0; r < size(); ++r) all.push_back((*this)[r].stream);
  return all;
}

void DeviceRanks::use_device_of(int rank) const {
  EXPECT_EQ(gpu_api()->set_device((*this)[rank].device), kGpuSuccess);
}

void DeviceRanks::synchronize() {
  for (int r = 0; r < size(); ++r) GPU_OK(gpu_api()->synchronize_stream((*this)[r].stream));
}

void with_ranks(int ranks, const std::function<void(ncclComm_t, int)>& body,
                const ncclConfig_t* config) {
  Ranks<NcclRank>(as_threads(ranks)).each([&](NcclRank& seat) {
    seat.join(config);
    if (seat.comm == nullptr) return;
    body(seat.comm, seat.rank);
    seat.leave();
  });
}

int gpus_there(const Environment& environment) {
  RankProcesses counter(1, Layout{}.under(environment), [](RankSeat& seat) {
    int count = 0;
    if (gpu_api() != nullptr && gpu_api()->device_count(&count) == kGpuSuccess)
      seat.mine().value.store(static_cast<std::uint64_t>(count));
  });
  return counter.wait_exits() ? static_cast<int>(counter.board().seats[0].value.load()) : 0;
}

}  // namespace rondo::test
