// SPDX-License-Identifier: Apache-2.0
// Bad input of NCCL's device API: errors name the value, on every rank, and nothing stays behind.
#include <fmt/format.h>

#include <vector>

#include "collectives/gpu/rank/device_comms.h"
#include "collectives/gpu/rank/multicast_place.h"
#include "collectives/gpu/rank/strided_memory.h"
#include "tests/gpu/device_api.h"
#include "tests/gpu/rank_logs.h"
#include "tests/simt/device/table.h"

namespace rondo::test {
namespace {

const Job kTwo = as_processes(2, Gpus::kOneEach);
constexpr std::uint64_t kNever = 1ull << 60;  // calls before one is refused

void expect_refused(NcclRank& seat, const ncclDevCommRequirements& wanted, ncclResult_t result,
                    const std::string& part) {
  ncclDevComm comm{};
  EXPECT_EQ(ncclDevCommCreate(seat.comm, &wanted, &comm), result);
  const std::string text = ncclGetLastError(seat.comm);
  EXPECT_NE(text.find(part), std::string::npos) << text << ", not: " << part;
  EXPECT_EQ(comm.windowTable, nullptr);
}

struct BadRequirements {
  void (*spoil)(ncclDevCommRequirements* wanted);
  ncclResult_t result;
  const char* part;
  const char* alone = nullptr;  // where one rank alone asks for it, if that differs
};
ncclDevResourceRequirements odd_alignment() {
  ncclDevResourceRequirements odd{};
  odd.bufferSize = 1, odd.bufferAlign = 24;
  return odd;
}
ncclDevResourceRequirements kOdd = odd_alignment();
ncclTeamRequirements kTeamOfThree{nullptr, {3, 0, 1}, true, nullptr};

const BadRequirements kBad[] = {
    {[](auto* w) { w->version = 99'900; }, ncclInvalidUsage, "of NCCL 99900"},
    {[](auto* w) { w->version = 23'300; }, ncclInvalidUsage, "of NCCL 23300"},
    {[](auto* w) { w->size = 119; }, ncclInvalidArgument, "have 120 bytes, not 119"},
    {[](auto* w) { w->version = 23'204, w->size = 128; }, ncclInvalidArgument,
     "requirements of NCCL 23204 have 120 bytes, not 128"},
    {[](auto* w) { w->version = 22'905; }, ncclInvalidArgument, "have 72 bytes, not 120"},
    {[](auto* w) { w->lsaBarrierCount = -3; }, ncclInvalidArgument, "lsaBarrierCount is -3"},
    {[](auto* w) { w->ginForceEnable = true; }, ncclInvalidUsage, "ginForceEnable asks for GIN"},
    {[](auto* w) { w->ginSignalCount = 1; }, ncclInvalidUsage, "ginSignalCount asks for GIN"},
    {[](auto* w) { w->ginConnectionType = NCCL_GIN_CONNECTION_FULL; }, ncclInvalidUsage,
     "ginConnectionType asks for GIN"},
    {[](auto* w) { w->cftCaps = NCCL_CFT; }, ncclInvalidUsage, "cftCaps asks for"},
    {[](auto* w) { w->lsaMultimem = true; }, ncclInvalidUsage, "multicast memory was asked for",
     "rank 1 ask for 40 bytes and multicast, those of rank 0 for 40 bytes"},
    {[](auto* w) { w->resourceRequirementsList = &kOdd; }, ncclInvalidArgument, "bufferAlign 24"},
    {[](auto* w) { w->teamRequirementsList = &kTeamOfThree; }, ncclInvalidUsage,
     "a team of 3 ranks"},
};

TEST(DeviceApiInput, OfRequirementsIsNamed) {
  run_job(kTwo, [](NcclRank& seat) {
    ApiWindow window(seat);  // signals need memory from the first window on
    ncclDevCommRequirements good = barriers_wanted();
    ncclDevComm comm;
    NCCL_OK(ncclDevCommCreate(seat.comm, &good, &comm));
    const std::uint64_t before = device_bytes(seat);
    for (const BadRequirements& bad : kBad) {
      ncclDevCommRequirements wanted = barriers_wanted();
      bad.spoil(&wanted);
      expect_refused(seat, wanted, bad.result, bad.part);
    }
    EXPECT_EQ(ncclDevCommCreate(seat.comm, nullptr, &comm), ncclInvalidArgument);
    EXPECT_EQ(ncclDevCommCreate(seat.comm, &good, nullptr), ncclInvalidArgument);
    EXPECT_EQ(device_bytes(seat), before);
    window.sum(comm, 1);
    ASSERT_TRUE(seat.board.meet());
  });
}

// What one rank alone gets wrong: its error on all ranks, which wait for no timeout.
TEST(DeviceApiInput, OfOneRankAloneIsItsErrorOnAll) {
  run_job(kTwo, [](NcclRank& seat) {
    ApiWindow window(seat);
    for (const BadRequirements& bad : kBad) {
      ncclDevCommRequirements wanted = barriers_wanted();
      if (seat.rank == 1) bad.spoil(&wanted);
      expect_refused(seat, wanted, bad.result, bad.alone == nullptr ? bad.part : bad.alone);
      const std::string text = ncclGetLastError(seat.comm);
      if (seat.rank == 0 && bad.alone == nullptr) {
        EXPECT_EQ(text.find("rank 1: "), 0u) << text;
      }
      if (testing::Test::HasFailure()) return;
    }
    const ncclDevCommRequirements good = barriers_wanted();
    ncclDevComm comm;
    const ncclDevCommRequirements* const reqs = seat.rank == 0 ? nullptr : &good;
    EXPECT_EQ(ncclDevCommCreate(seat.comm, reqs, &comm), ncclInvalidArgument);
    NCCL_OK(ncclDevCommCreate(seat.comm, &good, &comm));
    window.sum(comm, 1);
    ASSERT_TRUE(seat.board.meet());
  });
}

TEST(DeviceApiInput, ThatDiffersBetweenRanksIsAnErrorOnAll) {
  run_job(kTwo, [](NcclRank& seat) {
    expect_refused(seat, barriers_wanted(seat.rank == 0 ? 1 : 64), ncclInvalidUsage,
                   "the requirements of rank 1 ask for 1280 bytes, those of rank 0 for 20 bytes");
    const ncclDevCommRequirements wanted = barriers_wanted();
    ncclDevComm comm;
    NCCL_OK(ncclDevCommCreate(seat.comm, &wanted, &comm));
    // As many bytes, for something else.
    ncclDevCommRequirements other = barriers_wanted(0);
    ncclDevResourceRequirements buffer{};
    buffer.bufferSize = 4 * (3 * 2 + 2 * 2), buffer.bufferAlign = 4;
    other.resourceRequirementsList = &buffer;
    expect_refused(seat, seat.rank == 0 ? wanted : other, ncclInvalidUsage,
                   "rank 1 ask for other barriers or buffers, of 40 bytes in all, than those of "
                   "rank 0");
  });
}

// A later patch release of the newest headers, whose requirements have the same size.
TEST(DeviceApiInput, OfALaterPatchReleaseIsAccepted) {
  run_job(kTwo, [](NcclRank& seat) {
    ApiWindow window(seat);
    ncclDevCommRequirements wanted = barriers_wanted();
    wanted.version = NCCL_VERSION_CODE + 1;
    ncclDevComm comm;
    NCCL_OK(ncclDevCommCreate(seat.comm, &wanted, &comm));
    EXPECT_EQ(comm.version, unsigned{NCCL_VERSION_CODE + 1});
    window.sum(comm, 1);
    ASSERT_TRUE(seat.board.meet());
  });
}

// Where GPUs do not reach each other each rank is a team of its own: what asks for all ranks is an
// error on all, with its value, and nothing stays.
TEST(DeviceApiInput, OfAllRanksNeedsOneTeam) {
  run_job(as_processes(2, Gpus::kOneEach, {{"RONDO_SIMT", "p2p=none"}}), [](NcclRank& seat) {
    ApiWindow window(seat);
    EXPECT_EQ(ncclTeamLsa(seat.comm).nRanks, 1);
    ncclDevComm comm;
    const ncclDevCommRequirements good = barriers_wanted();
    NCCL_OK(ncclDevCommCreate(seat.comm, &good, &comm));
    const std::uint64_t before = device_bytes(seat);
    const auto refuses = [&](void (*spoil)(ncclDevCommRequirements*), const std::string& part) {
      ncclDevCommRequirements wanted = barriers_wanted();
      spoil(&wanted);
      expect_refused(seat, wanted, ncclInvalidUsage, part);
    };
    refuses([](auto* w) { w->barrierCount = 1; }, "barrierCount asks for GIN");
    refuses([](auto* w) { w->worldGinBarrierCount = 2; }, "worldGinBarrierCount asks for GIN");
    refuses([](auto* w) { w->railGinBarrierCount = 2; }, "railGinBarrierCount asks for GIN");
    refuses([](auto* w) { w->lsaMultimem = true; }, "where the 2 ranks are one Lsa team (of 1)");
    EXPECT_EQ(device_bytes(seat), before);
    void* at = nullptr;
    EXPECT_EQ(ncclGetPeerDevicePointer(window.handle(), 0, 1 - seat.rank, &at),
              ncclInvalidArgument);
    const std::string text = ncclGetLastError(nullptr);
    EXPECT_NE(text.find(fmt::format("rank {} is outside of the Lsa team", 1 - seat.rank)),
              std::string::npos)
        << text;
    window.sum(comm, 1);
    ASSERT_TRUE(seat.board.meet());
  });
}

TEST(DeviceApiInput, OfAddressesIsNamed) {
  run_job(kTwo, [](NcclRank& seat) {
    ApiWindow window(seat);
    const auto refuses = [&](ncclResult_t result, const std::string& part) {
      EXPECT_EQ(result, ncclInvalidArgument);
      const std::string text = ncclGetLastError(nullptr);
      EXPECT_NE(text.find(part), std::string::npos) << text;
    };
    void* at = nullptr;
    refuses(ncclGetLsaDevicePointer(window.handle(), 0, 2, &at), "rank 2 is outside of the Lsa");
    refuses(ncclGetLsaDevicePointer(window.handle(), 0, -1, &at), "rank -1 is outside");
    refuses(ncclGetPeerDevicePointer(window.handle(), 0, 7, &at), "rank 7 is outside");
    refuses(ncclGetLsaDevicePointer(window.handle(), 5000, 1, &at), "offset 5000 is beyond");
    refuses(ncclGetLsaDevicePointer(nullptr, 0, 0, &at), "win argument is NULL");
    refuses(ncclGetLsaDevicePointer(window.handle() + 1, 0, 0, &at), "is no window");
    refuses(ncclGetLsaDevicePointer(window.handle(), 0, 0, nullptr), "outPtr argument is NULL");
    EXPECT_EQ(ncclGetLsaMultimemDevicePointer(window.handle(), 0, &at), ncclInvalidUsage);
    const std::string text = ncclGetLastError(nullptr);
    EXPECT_NE(text.find("no multicast memory"), std::string::npos) << text;
    ASSERT_TRUE(seat.board.meet());
  });
}

// Memory that cannot be mapped again, or lies otherwise on one rank: kernels cannot use the window,
// each rank's log says why, and host functions use it as before.
TEST(DeviceApiInput, OfWindowsIsLoggedAndTheHostUsesThem) {
  const RankLogs logs;
  run_job(kTwo, [&](NcclRank& seat) {
    logs.use(seat.rank);
    const ncclDevCommRequirements wanted = barriers_wanted();
    ncclDevComm comm;
    NCCL_OK(ncclDevCommCreate(seat.comm, &wanted, &comm));
    ApiWindow plain(seat, seat.rank == 1), shifted(seat, false, seat.rank == 1 ? 16 : 0);
    std::string line;
    EXPECT_EQ(logs.count(seat.rank,
                         "since rank 0 could not map it: the window of rank 1 is "
                         "memory that cannot be exported",
                         &line),
              1);
    EXPECT_EQ(logs.count(seat.rank, "begins 80 bytes into its allocation", &line), 1);
    // Nobody tries or logs them again.
    ncclDevComm second;
    NCCL_OK(ncclDevCommCreate(seat.comm, &wanted, &second));
    EXPECT_EQ(logs.count(seat.rank, "kernels cannot use window", &line), 2);
    // Without the flag no log says so.
    ApiWindow unasked(seat, seat.rank == 1, 0, 0), flagless(seat, false, 0, 0);
    EXPECT_EQ(logs.count(seat.rank, "kernels cannot use window", &line), 2);
    EXPECT_EQ(unasked.record().lsaFlatBase, nullptr);
    flagless.sum(comm, 2);
    for (const ApiWindow* window : {&plain, &shifted}) {
      EXPECT_EQ(window->record().lsaFlatBase, nullptr);
      void* at = nullptr;
      NCCL_OK(ncclGetLsaDevicePointer(window->handle(), 0, 1 - seat.rank, &at));
      EXPECT_NE(at, nullptr);
    }
    NCCL_OK(ncclPutSignal(plain.data(), 4, ncclInt8, 1 - seat.rank, plain.handle(), 0, 0, 0, 0,
                          seat.comm, seat.stream));
    GPU_OK(gpu_api()->synchronize_stream(seat.stream));
    ApiWindow good(seat);
    good.sum(comm, 3);
    ASSERT_TRUE(seat.board.meet());
  });
}

// Rank 1 cannot write the record: the registration fails on both ranks, and collectives use no
// address of that window.
TEST(DeviceApiInput, OfAWindowThatOneRankCannotPublishLeavesNoWindow) {
  run_job(kTwo, [](NcclRank& seat) {
    constexpr std::size_t kCount = 100'000, kBytes = kCount * sizeof(std::int32_t);
    const ncclDevCommRequirements wanted = barriers_wanted();
    ncclDevComm comm;
    NCCL_OK(ncclDevCommCreate(seat.comm, &wanted, &comm));
    DeviceBuffer first(kBytes, 0, true), second(kBytes, 0, true);
    ncclWindow_t window = nullptr;
    if (seat.rank == 1) simt::refuse_call("copy");
    EXPECT_NE(
        ncclCommWindowRegister(seat.comm, first.data(), kBytes, &window, NCCL_WIN_COLL_SYMMETRIC),
        ncclSuccess);
    if (seat.rank == 1) simt::refuse_call("copy", kNever);
    EXPECT_EQ(window, nullptr);
    const std::string text = ncclGetLastError(seat.comm);
    EXPECT_NE(text.find("rank 1"), std::string::npos) << text;
    // Rank 1 gives other memory now, which rank 0 must use.
    DeviceBuffer& used = seat.rank == 1 ? second : first;
    NCCL_OK(
        ncclCommWindowRegister(seat.comm, used.data(), kBytes, &window, NCCL_WIN_COLL_SYMMETRIC));
    const auto fill = [&](DeviceBuffer& buffer, std::int32_t value) {
      Bytes content(kBytes);
      for (std::size_t i = 0; i < kCount; ++i) std::memcpy(&content[4 * i], &value, 4);
      buffer.put(content, 0, seat.stream);
    };
    fill(first, 1000);
    fill(used, seat.rank + 1);
    ASSERT_TRUE(seat.board.meet());
    NCCL_OK(ncclAllReduce(used.data(), used.data(), kCount, ncclInt32, ncclSum, seat.comm,
                          seat.stream));
    used.get(seat.stream);
    std::size_t correct = 0;
    for (std::size_t i = 0; i < kCount; ++i) {
      std::int32_t got = 0;
      std::memcpy(&got, used.host() + 4 * i, 4);
      correct += got == 3;
    }
    EXPECT_EQ(correct, kCount);
    ASSERT_TRUE(seat.board.meet());
    NCCL_OK(ncclCommWindowDeregister(seat.comm, window));
  });
}

// Kernels have records of a communicator's first windows only.
TEST(DeviceApiInput, OfTooManyWindowsIsTheirNumber) {
  run_job(as_processes(1, Gpus::kOneEach), [](NcclRank& seat) {
    DeviceBuffer memory(64, 0, true);
    const auto open = [&](int flags) {
      ncclWindow_t window = nullptr;
      const ncclResult_t result =
          ncclCommWindowRegister(seat.comm, memory.data(), 64, &window, flags);
      if (result == ncclSuccess) {
        EXPECT_EQ(ncclCommWindowDeregister(seat.comm, window), ncclSuccess);
      }
      return result;
    };
    const ncclDevCommRequirements wanted = barriers_wanted();
    ncclDevComm comm;
    NCCL_OK(ncclDevCommCreate(seat.comm, &wanted, &comm));  // window 1
    for (int i = 1; i < gpu::DeviceComms::kMaxWindows; ++i)
      ASSERT_EQ(open(NCCL_WIN_COLL_SYMMETRIC), ncclSuccess) << i;
    EXPECT_EQ(open(NCCL_WIN_COLL_SYMMETRIC), ncclInvalidUsage);
    const std::string text = ncclGetLastError(seat.comm);
    EXPECT_NE(text.find("this would be window 8193"), std::string::npos) << text;
    expect_refused(seat, wanted, ncclInvalidUsage, "this would be window 8194");
    EXPECT_EQ(open(0), ncclSuccess);  // for the host's functions
  });
}

TEST(DeviceApiInput, OnHostMemoryIsRefused) {
  const Job hidden = as_processes(2, Gpus::kNone, {{"CUDA_VISIBLE_DEVICES", "-1"}});
  run_job(hidden, [](NcclRank& seat) {
    ncclCommProperties_t properties = NCCL_COMM_PROPERTIES_INITIALIZER;
    NCCL_OK(ncclCommQueryProperties(seat.comm, &properties));
    EXPECT_FALSE(properties.deviceApiSupport);
    expect_refused(seat, barriers_wanted(), ncclInvalidUsage, "use the host API");
  });
}

// A driver call fails on one rank: an error on all, and a later try succeeds.
TEST(DeviceApiInput, OfADriverThatRefusesIsAnErrorOnAll) {
  run_job(kTwo, [](NcclRank& seat) {
    const ncclDevCommRequirements wanted = barriers_wanted();
    std::vector<std::uint64_t> left;  // bytes that each round leaves
    for (const char* call : {"vmm_create", "vmm_reserve", "vmm_retain"}) {
      if (seat.rank == 1) simt::refuse_call(call);
      ncclDevComm comm{};
      EXPECT_NE(ncclDevCommCreate(seat.comm, &wanted, &comm), ncclSuccess) << call;
      if (seat.rank == 1) simt::refuse_call(call, kNever);
      ASSERT_TRUE(seat.board.meet());
      ApiWindow window(seat);
      NCCL_OK(ncclDevCommCreate(seat.comm, &wanted, &comm));
      window.sum(comm, 5);
      ASSERT_TRUE(seat.board.meet());
      NCCL_OK(ncclDevCommDestroy(seat.comm, &comm));
      left.push_back(device_bytes(seat));
      EXPECT_EQ(left.back(), left.front()) << call;
    }
  });
}

TEST(DeviceApiStride, IsWhole4GiBAndFitsIntoAProcess) {
  using rondo::gpu::StridedMemory;
  const auto gib = [](std::uint64_t n) { return n << 30; };
  EXPECT_EQ(*StridedMemory::stride_for(1, 8), gib(4));
  EXPECT_EQ(*StridedMemory::stride_for(gib(4), 8), gib(4));
  EXPECT_EQ(*StridedMemory::stride_for(gib(4) + 1, 8), gib(8));
  EXPECT_EQ(*StridedMemory::stride_for(gib(128 << 10) / 8, 8), gib(128 << 10) / 8);
  const auto too_large = StridedMemory::stride_for(gib(128 << 10) / 8 + 1, 8);
  ASSERT_FALSE(too_large.ok());
  EXPECT_NE(too_large.error().text.find("17592186044417 bytes need 8 x 16388 GiB"),
            std::string::npos)
      << too_large.error().text;
}

// 0x302000000 is where a driver may well put the first mapping of a process.
TEST(DeviceApiMulticastPlace, IsAPageBehindABaseThatIsNotNull) {
  using rondo::gpu::multicast_place;
  constexpr std::uint64_t kTiB = 1ull << 40;
  const auto check = [](std::uint64_t at, std::optional<std::uint64_t> base, std::uint64_t want) {
    const auto place = multicast_place(at, base);
    ASSERT_TRUE(place) << at;
    EXPECT_EQ(place->base, want);
    EXPECT_EQ(place->base + std::uint64_t{place->page} * 4096, at);
  };
  check(0x302000000, std::nullopt, 4096);
  check(4096, std::nullopt, 4096);
  check(16 * kTiB, 4096, 4096);  // the last page
  check(0x7f0203000000, std::nullopt, 112 * kTiB);
  check(0x7f0203000000, 112 * kTiB, 112 * kTiB);
  EXPECT_FALSE(multicast_place(0x302000800, std::nullopt));  // within a page
  EXPECT_FALSE(multicast_place(16 * kTiB + 4096, 4096));     // too far
  EXPECT_FALSE(multicast_place(0x302000000, 112 * kTiB));    // before the base
}

}  // namespace
}  // namespace rondo::test
