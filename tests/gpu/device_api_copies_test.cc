// SPDX-License-Identifier: Apache-2.0
// Kernels of NCCL's device API that add and copy windows by its functions, and exchange values by
// LLA2A sessions, compiled against Rondo's nccl_device.h.
#include "tests/gpu/device_api.h"

namespace rondo::test {
namespace {

constexpr unsigned kThreads = 64;
constexpr std::size_t kElements = 1003;  // no multiple of a pack, nor of the threads

const NamedLayout kCopyPlaces[] = {
    {"two", as_processes(2, Gpus::kOneEach)},
    {"four", as_processes(4, Gpus::kOneEach)},
    {"eight", as_processes(8, Gpus::kOneEach)},
    {"weak", as_processes(3, Gpus::kOneEach, {{"RONDO_SIMT", "mode=weak"}})},
    {"threads", {{{0, 1, 2}}}},
    {"hosts", {{{0}, {1}, {2}, {3}}, {"a", "a", "b", "b"}}},
    {"alone", as_processes(1, Gpus::kOneEach)},
};
class DeviceApiCopies : public testing::TestWithParam<NamedLayout> {};
INSTANTIATE_TEST_SUITE_P(Places, DeviceApiCopies, testing::ValuesIn(kCopyPlaces),
                         [](const auto& info) { return std::string(info.param.name); });

// Sums of these depend on their order.
float value_of(int rank, std::size_t i) {
  return static_cast<float>((i * 13 + 7) % 97) * (rank % 2 == 0 ? 1e4f : 1.0f / 3) +
         static_cast<float>(rank);
}

// Elements at the begin of the window are this rank's; then the places of results. `shift` elements
// off a multiple of 16 bytes.
struct SumsAndCopies {
  enum Place : std::size_t { kInput, kSum, kByAddress, kToAll, kCopied, kLocal, kPlaces };
  ncclDevComm comm;
  ncclWindow_t window;
  std::size_t shift;

  static constexpr std::size_t bytes_of() { return (kElements + 9) * sizeof(float); }
  std::size_t at(Place place) const { return place * bytes_of() + shift * sizeof(float); }
  float* own(Place place) const {
    return static_cast<float*>(ncclGetLocalPointer(window, at(place)));
  }
  void operator()() const {
    ncclCoopCta coop;
    ncclLsaBarrierSession<ncclCoopCta> barrier(coop, comm, ncclTeamTagLsa(), 0);
    const auto me = static_cast<std::size_t>(coop.thread_rank());
    for (std::size_t i = me; i < kElements; i += kThreads)
      device::store(own(kInput) + i, value_of(comm.rank, i));
    barrier.sync(coop, ::cuda::memory_order_acq_rel);
    ncclLsaReduceSum<float>(coop, window, at(kInput), own(kSum), kElements, comm);
    // The same in the reverse order of the ranks.
    const auto reversed = [this](int i) {
      return static_cast<float*>(ncclGetLsaPointer(window, at(kInput), comm.lsaSize - 1 - i));
    };
    ncclLsaReduceSum<float>(coop, reversed, comm.lsaSize, own(kByAddress), kElements);
    // One rank copies its sum to all; another one sums into the memory of all.
    if (comm.lsaRank == comm.lsaSize - 1)
      ncclLsaReduceSumCopy<float>(coop, window, at(kInput), window, at(kToAll), kElements, comm);
    coop.sync();
    if (comm.lsaRank == 0)
      ncclLsaCopy<float>(coop, own(kSum), window, at(kCopied), kElements, ncclTeamLsa(comm));
    ncclLocalReduceSum<float>(coop, 2, own(kInput), bytes_of() / sizeof(float), own(kLocal),
                              kElements);
    barrier.sync(coop, ::cuda::memory_order_acq_rel);
  }
};

TEST_P(DeviceApiCopies, AddInTheOrderOfRanks) {
  run_job(GetParam().layout, [](NcclRank& seat) {
    constexpr std::size_t kBytes = SumsAndCopies::kPlaces * SumsAndCopies::bytes_of();
    DeviceBuffer memory(kBytes, 0, true);
    ncclWindow_t window = nullptr;
    NCCL_OK(
        ncclCommWindowRegister(seat.comm, memory.data(), kBytes, &window, NCCL_WIN_COLL_SYMMETRIC));
    const ncclDevCommRequirements wanted = barriers_wanted(1);
    ncclDevComm comm;
    NCCL_OK(ncclDevCommCreate(seat.comm, &wanted, &comm));
    for (const std::size_t shift : {0u, 1u}) {
      memory.put(Bytes(kBytes, std::byte{0xff}), 0, seat.stream);
      ASSERT_TRUE(seat.board.meet());
      const SumsAndCopies kernel{comm, window, shift};
      GPU_OK(
          simt::TestDevice::launch("sums_and_copies", {.threads = kThreads}, seat.stream, kernel));
      ASSERT_TRUE(seat.board.meet());  // a copy may stand before a kernel in a shared queue
      memory.get(seat.stream);
      EXPECT_TRUE(memory.guards_intact());
      const auto got = [&](SumsAndCopies::Place place, std::size_t i) {
        float value = 0;
        std::memcpy(&value, memory.host() + kernel.at(place) + i * sizeof(float), sizeof(float));
        return value;
      };
      const int first = seat.rank - comm.lsaRank;
      for (std::size_t i = 0; i < kElements; ++i) {
        float sum = value_of(first, i), reversed = value_of(first + comm.lsaSize - 1, i);
        for (int r = 1; r < comm.lsaSize; ++r) {
          sum += value_of(first + r, i);
          reversed += value_of(first + comm.lsaSize - 1 - r, i);
        }
        ASSERT_EQ(got(SumsAndCopies::kSum, i), sum) << i;
        ASSERT_EQ(got(SumsAndCopies::kByAddress, i), reversed) << i;
        ASSERT_EQ(got(SumsAndCopies::kToAll, i), sum) << i;
        ASSERT_EQ(got(SumsAndCopies::kCopied, i), sum) << i;
        ASSERT_EQ(got(SumsAndCopies::kLocal, i), value_of(seat.rank, i) + sum) << i;
      }
      // Nothing beside the elements.
      for (std::size_t place = 0; place < SumsAndCopies::kPlaces; ++place)
        for (std::size_t b = (kElements + shift) * 4; b < SumsAndCopies::bytes_of(); ++b)
          ASSERT_EQ(memory.host()[place * SumsAndCopies::bytes_of() + b], std::byte{0xff});
    }
    ASSERT_TRUE(seat.board.meet());
    NCCL_OK(ncclCommWindowDeregister(seat.comm, window));
  });
}

// ---- LLA2A -------------------------------------------------------------------------------------

struct Three {
  std::uint32_t word[3];
};

// A CTA's block of slots: each thread sends a value to each peer, and all receive and add them, for
// some epochs. The next kernel goes on with the same slots.
struct Exchange {
  ncclDevComm comm;
  ncclLLA2AHandle slots;
  std::uint64_t* sums;  // [epoch][cta][thread]
  std::uint32_t kernel;
  int epochs;

  static std::uint64_t value(int from, int to, std::uint32_t kernel, int epoch, unsigned thread) {
    return (static_cast<std::uint64_t>(from) << 40) + (static_cast<std::uint64_t>(to) << 32) +
           kernel * 10'000 + static_cast<std::uint64_t>(epoch) * 1000 + thread;
  }
  void operator()() const {
    ncclCoopCta coop;
    const ncclTeam team = ncclTeamLsa(comm);
    const int threads = coop.size(), me = coop.thread_rank();
    const unsigned cta = device::cta_index();
    // Each rank has a place for each thread; then a place for a word of three for each rank.
    const int pitch = team.nRanks * threads + team.nRanks;
    ncclLLA2ASession<ncclCoopCta> session(coop, comm, team, slots, cta, pitch);
    for (int epoch = 0; epoch < epochs; ++epoch) {
      const auto thread = static_cast<unsigned>(me);
      for (int peer = 0; peer < team.nRanks; ++peer)
        session.send(peer, team.rank * threads + me, value(team.rank, peer, kernel, epoch, thread));
      if (me == 0)
        session.bcast(team.nRanks * threads + team.rank,
                      Three{{kernel, static_cast<std::uint32_t>(epoch),
                             static_cast<std::uint32_t>(team.rank)}});
      // Of another thread than the one that sent from this place.
      const int from = (me + 1) % threads;
      const auto add = [](std::uint64_t a, std::uint64_t b) { return a + b; };
      std::uint64_t sum = session.template recvReduce<4, std::uint64_t>(
          from, team.nRanks, threads, [](std::uint64_t one) { return one; }, add);
      std::uint64_t again[8] = {};
      session.template recvUnrolled<1, 8>(from, team.nRanks, threads, again);
      for (int peer = 0; peer < team.nRanks; ++peer) sum -= again[peer];  // 0 is left
      for (int peer = 0; peer < team.nRanks; ++peer) {
        const Three three = session.template recv<Three>(team.nRanks * threads + peer);
        const bool is_right = three.word[0] == kernel &&
                              three.word[1] == static_cast<std::uint32_t>(epoch) &&
                              three.word[2] == static_cast<std::uint32_t>(peer);
        sum += (is_right ? again[peer] : 0);
      }
      device::store(sums +
                        (static_cast<unsigned>(epoch) * device::cta_count() + cta) *
                            static_cast<unsigned>(threads) +
                        static_cast<unsigned>(from),
                    sum);
      session.endEpoch(coop);
    }
  }
};

TEST_P(DeviceApiCopies, ExchangeSmallValues) {
  run_job(GetParam().layout, [](NcclRank& seat) {
    constexpr unsigned kCtas = 2;
    const int team = ncclTeamLsa(seat.comm).nRanks;
    const int places = team * static_cast<int>(kThreads) + team;
    ncclLLA2AHandle slots{};
    ncclDevResourceRequirements of_slots{};
    NCCL_OK(ncclLLA2ACreateRequirement(kCtas, ncclLLA2ACalcSlots(places, sizeof(Three)), &slots,
                                       &of_slots));
    ncclDevCommRequirements wanted = barriers_wanted(1);
    wanted.resourceRequirementsList = &of_slots;
    ncclDevComm comm;
    NCCL_OK(ncclDevCommCreate(seat.comm, &wanted, &comm));
    // Those of one epoch find what the last ones with the same number of epochs left.
    const int epochs[] = {5, 1, 1, 2};
    const int first = seat.rank - comm.lsaRank;
    for (std::uint32_t kernel = 0; kernel < 4; ++kernel) {
      const std::size_t count = static_cast<std::size_t>(epochs[kernel]) * kCtas * kThreads;
      DeviceBuffer sums(count * sizeof(std::uint64_t), 0);
      sums.put({}, 0, seat.stream);
      ASSERT_TRUE(seat.board.meet());
      GPU_OK(simt::TestDevice::launch(
          "exchange", {.ctas = kCtas, .threads = kThreads}, seat.stream,
          Exchange{comm, slots, reinterpret_cast<std::uint64_t*>(sums.data()), kernel,
                   epochs[kernel]}));
      ASSERT_TRUE(seat.board.meet());
      sums.get(seat.stream);
      EXPECT_TRUE(sums.guards_intact());
      for (std::size_t i = 0; i < count; ++i) {
        std::uint64_t want = 0, got = 0;
        for (int r = 0; r < comm.lsaSize; ++r)
          want += Exchange::value(r, comm.lsaRank, kernel, static_cast<int>(i / kCtas / kThreads),
                                  static_cast<unsigned>(i % kThreads));
        std::memcpy(&got, sums.host() + i * sizeof(got), sizeof(got));
        ASSERT_EQ(got, want) << i << " of rank " << seat.rank << ", team from " << first;
      }
    }
    ASSERT_TRUE(seat.board.meet());
  });
}

}  // namespace
}  // namespace rondo::test
