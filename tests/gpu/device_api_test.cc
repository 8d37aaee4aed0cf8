// SPDX-License-Identifier: Apache-2.0
// Kernels of NCCL's device API on communicators: sums of peers' windows between barriers, in every
// placement and layout of NCCL's versions, and through everything that happens to a communicator.
#include "tests/gpu/device_api.h"

#include <algorithm>
#include <set>

#include "api/device_layouts.h"
#include "kernels/cuda/device_multicast.h"
#include "tests/gpu/cliques.h"
#include "tests/gpu/multicast_accesses.h"
#include "tests/support/waits.h"

namespace rondo::test {
namespace {

const NamedLayout kApiPlaces[] = {
    {"two", as_processes(2, Gpus::kOneEach)},
    {"four", as_processes(4, Gpus::kOneEach)},
    {"eight", as_processes(8, Gpus::kOneEach)},
    {"threads", {{{0, 1, 2}}}},
    // Their kernels wait for each other, so their streams must not share a hardware queue.
    {"one_gpu", Layout{{{0, 0, 0}}}.under({{"RONDO_SIMT", "queues=own"}})},
    {"processes_on_one_gpu", as_processes(2, Gpus::kOne)},
    {"mixed", {{{0, 1}, {2}}}},
    {"pairs", as_processes(4, Gpus::kOneEach, {{"RONDO_SIMT", "p2p=pairs"}})},
    {"no_p2p", as_processes(2, Gpus::kOneEach, {{"RONDO_SIMT", "p2p=none"}})},
    {"hosts", {{{0}, {1}, {2}, {3}}, {"a", "a", "b", "b"}}},
    {"joined_hosts", in_cliques({{{0}, {1}, {2}, {3}}, {"a", "a", "b", "b"}}, {1, 1, 1, 1})},
    {"alone", as_processes(1, Gpus::kOneEach)},
};

class DeviceApi : public testing::TestWithParam<NamedLayout> {};
INSTANTIATE_TEST_SUITE_P(Places, DeviceApi, testing::ValuesIn(kApiPlaces),
                         [](const auto& info) { return std::string(info.param.name); });

// Windows from before and after the device communicator; two of these; all destroyed.
TEST_P(DeviceApi, SumsWindowsBetweenBarriers) {
  run_job(GetParam().layout, [](NcclRank& seat) {
    ncclCommProperties_t properties = NCCL_COMM_PROPERTIES_INITIALIZER;
    NCCL_OK(ncclCommQueryProperties(seat.comm, &properties));
    EXPECT_TRUE(properties.deviceApiSupport);
    EXPECT_FALSE(properties.multimemSupport);
    EXPECT_EQ(properties.ginType, NCCL_GIN_TYPE_NONE);
    ApiWindow before(seat);
    const ncclDevCommRequirements wanted = barriers_wanted();
    ncclDevComm first, second;
    NCCL_OK(ncclDevCommCreate(seat.comm, &wanted, &first));
    const std::uint64_t with_one = device_bytes(seat);
    NCCL_OK(ncclDevCommCreate(seat.comm, &wanted, &second));
    ApiWindow after(seat, false, 16);
    EXPECT_EQ(first.lsaSize, ncclTeamLsa(seat.comm).nRanks);
    for (std::uint32_t round = 0; round < 4; ++round) {
      before.sum(round % 2 == 0 ? first : second, round);
      after.sum(first, round + 100);
      if (testing::Test::HasFatalFailure()) return;
    }
    ASSERT_TRUE(seat.board.meet());
    NCCL_OK(ncclDevCommDestroy(seat.comm, &second));
    EXPECT_EQ(device_bytes(seat), with_one);
    ASSERT_TRUE(seat.board.meet());  // the copies of ranks of one GPU may share its queues
    before.sum(first, 7);
    ASSERT_TRUE(seat.board.meet());
    NCCL_OK(ncclDevCommDestroy(seat.comm, &first));
    EXPECT_EQ(ncclDevCommDestroy(seat.comm, &first), ncclInvalidArgument);
  });
}

// The pointers of the host's functions are those that kernels calculate.
TEST_P(DeviceApi, GivesTheHostTheAddressesOfKernels) {
  run_job(GetParam().layout, [](NcclRank& seat) {
    ApiWindow window(seat);
    window.put_rank();
    ASSERT_TRUE(seat.board.meet());
    const ncclTeam_t lsa = ncclTeamLsa(seat.comm);
    const int first = seat.rank / lsa.nRanks * lsa.nRanks;
    for (const bool mapped : {false, true}) {
      ncclDevComm comm;
      const ncclDevCommRequirements wanted = barriers_wanted();
      if (mapped) {
        NCCL_OK(ncclDevCommCreate(seat.comm, &wanted, &comm));
      }
      for (int peer = 0; peer < lsa.nRanks; ++peer) {
        void *by_lsa = nullptr, *by_world = nullptr;
        NCCL_OK(ncclGetLsaDevicePointer(window.handle(), 8, peer, &by_lsa));
        NCCL_OK(ncclGetPeerDevicePointer(window.handle(), 8, first + peer, &by_world));
        EXPECT_EQ(by_lsa, by_world);
        EXPECT_EQ(window.rank_at(static_cast<std::byte*>(by_lsa) - 8), first + peer);
        if (!mapped) continue;
        const ncclWindow_vidmem record = window.record();
        EXPECT_EQ(
            by_lsa,
            record.lsaFlatBase +
                (static_cast<std::uint64_t>(peer) * static_cast<std::uint64_t>(record.stride4G)
                 << 32) +
                8);
        EXPECT_EQ(record.lsaRank, lsa.rank);
        EXPECT_EQ(record.worldRank, seat.rank);
      }
    }
    void* user = nullptr;
    NCCL_OK(ncclWinGetUserPtr(seat.comm, window.handle(), &user));
    EXPECT_EQ(user, window.data());
    ASSERT_TRUE(seat.board.meet());
    NCCL_OK(ncclCommDeregister(seat.comm, window.release()));  // as torch does
  });
}

// ---- Layouts of NCCL's versions --------------------------------------------------------------

template <class T>
T field(const Bytes& bytes, int offset) {
  T value{};
  std::memcpy(&value, &bytes[static_cast<std::size_t>(offset)], sizeof(value));
  return value;
}

// Requirements as a program of that version passes them: one barrier for each CTA.
Bytes requirements_of(const api::DeviceLayout& layout) {
  Bytes wanted(static_cast<std::size_t>(layout.requirement_bytes));
  const auto put = [&](int offset, const auto& value) {
    std::memcpy(&wanted[static_cast<std::size_t>(offset)], &value, sizeof(value));
  };
  if (layout.requirements != 0) {
    put(0, wanted.size());
    put(8, unsigned{NCCL_API_MAGIC});
    put(12, static_cast<unsigned>(layout.version));
  }
  put(layout.requirements + 24, static_cast<int>(ApiWindow::kCtas));
  return wanted;
}

// What a kernel of that version reads, as this version's struct.
ncclDevComm read_by(const api::DeviceLayout& layout, const Bytes& made) {
  ncclDevComm comm{};
  const auto six = field<std::array<int, 6>>(made, layout.rank);
  comm.rank = six[0], comm.nRanks = six[1];
  comm.lsaRank = six[3], comm.lsaSize = six[4];
  comm.resourceWindow = field<ncclWindow_t>(made, layout.resource_window);
  comm.resourceWindow_inlined = {field<char*>(made, layout.inlined_base),
                                 field<std::uint32_t>(made, layout.inlined_stride),
                                 field<std::uint32_t>(made, layout.inlined_multicast)};
  comm.lsaBarrier = field<ncclLsaBarrierHandle>(made, layout.lsa_barrier);
  return comm;
}

TEST(DeviceApiVersions, AreWrittenAsTheirHeadersLayThemOut) {
  run_job(as_processes(2, Gpus::kOneEach), [](NcclRank& seat) {
    ApiWindow window(seat);
    for (const api::DeviceLayout& layout : api::kDeviceLayouts) {
      const Bytes wanted = requirements_of(layout);
      Bytes made(512, std::byte{0xee});
      auto* const out = reinterpret_cast<ncclDevComm*>(made.data());
      NCCL_OK(ncclDevCommCreate(
          seat.comm, reinterpret_cast<const ncclDevCommRequirements*>(wanted.data()), out));
      for (std::size_t i = static_cast<std::size_t>(layout.bytes); i < made.size(); ++i)
        ASSERT_EQ(made[i], std::byte{0xee}) << "beyond the struct of " << layout.version;
      if (layout.rank != 0) {
        EXPECT_EQ(field<unsigned>(made, 0), unsigned{NCCL_API_MAGIC});
        EXPECT_EQ(field<int>(made, 4), layout.version);
      }
      if (layout.abort_flag >= 0) {
        EXPECT_NE(field<void*>(made, layout.abort_flag), nullptr);
      }
      const ncclDevComm comm = read_by(layout, made);
      EXPECT_EQ(comm.nRanks, 2);
      EXPECT_EQ(comm.lsaBarrier.nBarriers, static_cast<int>(ApiWindow::kCtas));
      window.sum(comm, static_cast<std::uint32_t>(layout.version));
      ASSERT_TRUE(seat.board.meet());
      NCCL_OK(ncclDevCommDestroy(seat.comm, out));
    }
  });
}

// Kernels of headers without an abort word may wait in this memory as long as the process lives.
TEST(DeviceApiVersions, KeepTheMemoryOfKernelsThatAbortDoesNotEnd) {
  run_job(as_processes(2, Gpus::kOneEach), [](NcclRank& seat) {
    const auto is_mapped = [](const void* at) {
      GpuPointer info;
      return gpu_api()->pointer_info(&info, at) == kGpuSuccess && info.kind == GpuMemory::kDevice;
    };
    // A communicator for a header of this layout: aborts it, and returns what its kernels used.
    const auto used_by = [&](const api::DeviceLayout& layout) {
      std::vector<const void*> used;
      const ncclComm_t all = seat.comm;
      EXPECT_EQ(ncclCommSplit(all, 0, seat.rank, &seat.comm, nullptr), ncclSuccess);
      ApiWindow window(seat);
      const Bytes wanted = requirements_of(layout);
      Bytes made(512);
      EXPECT_EQ(ncclDevCommCreate(seat.comm,
                                  reinterpret_cast<const ncclDevCommRequirements*>(wanted.data()),
                                  reinterpret_cast<ncclDevComm*>(made.data())),
                ncclSuccess);
      const ncclDevComm comm = read_by(layout, made);
      for (const char* base :
           {comm.resourceWindow_inlined.lsaFlatBase, window.record().lsaFlatBase})
        for (const std::uint64_t stride : {0, 1}) used.push_back(base + (stride << 32));
      used.push_back(comm.resourceWindow);
      EXPECT_TRUE(std::all_of(used.begin(), used.end(), is_mapped));
      EXPECT_TRUE(seat.board.meet());
      EXPECT_EQ(ncclCommAbort(seat.comm), ncclSuccess);
      (void)window.release();
      seat.comm = all;
      return used;
    };
    ASSERT_EQ(api::kDeviceLayouts[1].abort_flag, api::DeviceLayout::kNone);
    ASSERT_NE(api::kDeviceLayouts[2].abort_flag, api::DeviceLayout::kNone);
    const std::vector<const void*> old = used_by(api::kDeviceLayouts[1]);
    const std::vector<const void*> newer = used_by(api::kDeviceLayouts[2]);
    ASSERT_TRUE(wait_until([&] { return std::none_of(newer.begin(), newer.end(), is_mapped); }));
    EXPECT_TRUE(std::all_of(old.begin(), old.end(), is_mapped));
  });
}

// Divisions of kernels: x / y is the high word of x * reciprocal32(y), or one more.
TEST(DeviceApiVersions, GiveReciprocalsThatDivide) {
  EXPECT_EQ(api::reciprocal32(1), 0u);
  EXPECT_EQ(api::reciprocal32(2), 1u << 31);
  EXPECT_EQ(api::reciprocal32(3), 0x55555555u);
  EXPECT_EQ(api::reciprocal32(8), 1u << 29);
}

// ---- Teams, pointers, resources --------------------------------------------------------------

// Against sets of ranks.
TEST(DeviceApiTeams, ConvertRanks) {
  constexpr int kRanks = 24;
  std::vector<ncclTeam> teams;
  for (const int stride : {1, 2, 3, 4, 6})
    for (int n = 1; n <= 4; ++n)
      for (int rank = 0; rank < n; ++rank) teams.push_back({n, rank, stride});
  const auto in_world = [](ncclTeam team, int rank) {
    return kRanks / 2 + (rank - team.rank) * team.stride;  // this rank is in the middle
  };
  const auto set_of = [&](ncclTeam team) {
    std::set<int> ranks;
    for (int r = 0; r < team.nRanks; ++r) ranks.insert(in_world(team, r));
    return ranks;
  };
  int subsets = 0;
  for (const ncclTeam a : teams)
    for (const ncclTeam b : teams) {
      const std::set<int> in_a = set_of(a), in_b = set_of(b);
      for (int r = 0; r < b.nRanks; ++r) {
        const bool is_member = in_a.count(in_world(b, r)) != 0;
        ASSERT_EQ(ncclTeamRankIsMember(a, b, r), is_member);
        if (!is_member) continue;
        ASSERT_EQ(in_world(a, ncclTeamRankToTeam(a, b, r)), in_world(b, r));
      }
      if (!std::includes(in_a.begin(), in_a.end(), in_b.begin(), in_b.end())) continue;
      if (b.stride % a.stride != 0) continue;  // of one rank
      ++subsets;
      int n = 0;
      for (int r = 0; r < a.nRanks; ++r) {
        if (in_b.count(in_world(a, r)) != 0) continue;
        ASSERT_EQ(ncclTeamRankInDifference(a, b, n++), r);
      }
    }
  EXPECT_GT(subsets, 100);
}

TEST(DeviceApiSymPtr, CountsInElements) {
  const ncclSymPtr<double> begin(nullptr, 64);
  ncclSymPtr<double> at = begin + 5;
  EXPECT_EQ(at.offset, 64 + 5 * sizeof(double));
  at += -2;
  EXPECT_EQ(at - begin, 3);
  EXPECT_EQ(begin - at, -3);
  EXPECT_TRUE((at -= 3u) == begin);
  EXPECT_EQ(ncclSymPtr<float>(begin + 1).offset, 72u);
}

TEST(DeviceApiResources, LieApartAndAligned) {
  run_job(as_processes(2, Gpus::kOneEach), [](NcclRank& seat) {
    ncclLsaBarrierHandle barriers{};
    ncclLLA2AHandle slots{};
    ncclDevResourceHandle_t buffer = 0;
    ncclDevResourceRequirements of_barriers{}, of_slots{}, of_buffer{};
    NCCL_OK(ncclLsaBarrierCreateRequirement(ncclTeamLsa(seat.comm), 3, &barriers, &of_barriers));
    NCCL_OK(ncclLLA2ACreateRequirement(2, 5, &slots, &of_slots));
    EXPECT_EQ(of_barriers.bufferSize, 4u * (3 * 3 + 3 * 2));
    EXPECT_EQ(of_slots.bufferSize, 16u * 2 * (1 + 2 * 5));
    of_buffer.bufferSize = 5000, of_buffer.bufferAlign = 4096;
    of_buffer.outBufferHandle = &buffer;
    of_barriers.next = &of_slots, of_slots.next = &of_buffer;
    ncclDevCommRequirements wanted = barriers_wanted(1);
    wanted.barrierCount = 2;
    wanted.resourceRequirementsList = &of_barriers;
    ncclDevComm comm;
    NCCL_OK(ncclDevCommCreate(seat.comm, &wanted, &comm));
    EXPECT_EQ(comm.lsaBarrier.nBarriers, 2);
    EXPECT_EQ(comm.hybridLsaBarrier.nBarriers, 2);
    EXPECT_EQ(barriers.nBarriers, 3);
    EXPECT_EQ(slots.nSlots, 5u);
    const std::uint32_t begins[] = {comm.lsaBarrier.bufHandle, comm.hybridLsaBarrier.bufHandle,
                                    barriers.bufHandle, slots.bufHandle, buffer};
    constexpr std::size_t kTwoBarriers = 4 * (3 * 2 + 2 * 2);
    const std::size_t bytes[] = {kTwoBarriers, kTwoBarriers, of_barriers.bufferSize,
                                 of_slots.bufferSize};
    for (int i = 1; i < 5; ++i)
      EXPECT_GE(begins[i] * 128, begins[i - 1] * 128 + bytes[i - 1]) << "resource " << i;
    EXPECT_EQ(buffer * 128 % 4096, 0u);
    // All of it is zeroed.
    Bytes content(buffer * 128 + 5000, std::byte{1});
    const char* const own = comm.resourceWindow_inlined.lsaFlatBase +
                            (static_cast<std::uint64_t>(comm.lsaRank) *
                                 static_cast<std::uint64_t>(comm.resourceWindow_inlined.stride4G)
                             << 32);
    GPU_OK(
        gpu_api()->copy(content.data(), own, content.size(), GpuCopy::kDeviceToHost, seat.stream));
    GPU_OK(gpu_api()->synchronize_stream(seat.stream));
    EXPECT_EQ(content, Bytes(content.size()));
    ASSERT_TRUE(seat.board.meet());
  });
}

// ---- Multicast memory ------------------------------------------------------------------------

// Rank 0 stores through the switch what every rank then has in its window.
TEST(DeviceApiMultimem, StoresIntoAllWindows) {
  run_job(as_processes(3, Gpus::kOneEach, {{"NCCL_NVLS_ENABLE", "1"}}), [](NcclRank& seat) {
    ncclCommProperties_t properties = NCCL_COMM_PROPERTIES_INITIALIZER;
    NCCL_OK(ncclCommQueryProperties(seat.comm, &properties));
    EXPECT_TRUE(properties.multimemSupport);
    constexpr std::size_t kToPage = 4096 - 64;  // windows begin behind guards of 64 bytes
    ApiWindow first(seat, false, kToPage), second(seat, false, kToPage);
    ncclDevCommRequirements wanted = barriers_wanted();
    ncclMultimemHandle handle{};
    ncclTeamRequirements team{nullptr, ncclTeamLsa(seat.comm), true, &handle};
    wanted.teamRequirementsList = &team;
    ncclDevComm comm;
    NCCL_OK(ncclDevCommCreate(seat.comm, &wanted, &comm));
    EXPECT_EQ(handle.mcBasePtr, comm.lsaMultimem.mcBasePtr);
    for (const ApiWindow* window : {&first, &second}) {
      const ncclWindow_vidmem record = window->record();
      void *by_lsa = nullptr, *by_handle = nullptr;
      NCCL_OK(ncclGetLsaMultimemDevicePointer(window->handle(), 16, &by_lsa));
      NCCL_OK(ncclGetMultimemDevicePointer(window->handle(), 16, handle, &by_handle));
      EXPECT_EQ(by_lsa, by_handle);
      EXPECT_EQ(by_lsa, static_cast<std::byte*>(handle.mcBasePtr) +
                            (static_cast<std::uint64_t>(record.mcOffset4K) << 12) + 16);
      if (seat.rank == 0) {
        const auto store = [comm, all = window->handle()] {
          auto* const at = static_cast<device::Vector*>(ncclGetLsaMultimemPointer(all, 16, comm));
          device::store_all(at, {{1, 2, 3, 4}});
        };
        GPU_OK(simt::TestDevice::launch("store_all", {.threads = 1}, seat.stream, store));
        GPU_OK(gpu_api()->synchronize_stream(seat.stream));
      }
      ASSERT_TRUE(seat.board.meet());
      std::uint32_t got[4] = {};
      GPU_OK(gpu_api()->copy(got, window->data() + 16, sizeof(got), GpuCopy::kDeviceToHost,
                             seat.stream));
      GPU_OK(gpu_api()->synchronize_stream(seat.stream));
      for (std::uint32_t i = 0; i < 4; ++i) EXPECT_EQ(got[i], i + 1);
    }
    ASSERT_TRUE(seat.board.meet());
  });
}

// Arrivals are added to the counters of all ranks at once, in turns with those that store to each.
TEST(DeviceApiMultimem, BarriersMeet) {
  for (const char* mode : {"mode=seed", "mode=weak"}) {
    const Environment set{{"NCCL_NVLS_ENABLE", "1"}, {"RONDO_SIMT", mode}};
    run_job(as_processes(3, Gpus::kOneEach, set), [](NcclRank& seat) {
      ApiWindow window(seat);
      ncclDevCommRequirements wanted = barriers_wanted();
      wanted.lsaMultimem = true;
      ncclDevComm comm;
      NCCL_OK(ncclDevCommCreate(seat.comm, &wanted, &comm));
      const std::uint64_t before = multicast_accesses();
      for (std::uint32_t round = 0; round < 8; ++round) {
        window.sum(comm, round, round % 3 != 2);
        if (testing::Test::HasFatalFailure()) return;
      }
      EXPECT_EQ(multicast_accesses() - before, 6 * 2 * ApiWindow::kCtas);
      ASSERT_TRUE(seat.board.meet());
    });
  }
}

}  // namespace
}  // namespace rondo::test
