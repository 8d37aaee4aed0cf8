// SPDX-License-Identifier: Apache-2.0
// Kernels of NCCL's device API, compiled against api/nccl_device.h alone: windows at one stride and
// barriers of the Lsa team, in memory that the test lays out as NCCL does; in seed mode and in weak
// memory. The same with transcripts of the barriers of NVIDIA's headers in place of Rondo's.
#include <atomic>
#include <cstring>

#define RONDO_DEVICE_PRIMITIVES "tests/simt/device_primitives.h"
#include "api/nccl_device.h"
#include "tests/simt/lsa_transcript.h"
#include "tests/simt/machine_fixture.h"
#include "tests/simt/rounds.h"

namespace {

using rondo::simt::kTranscripts;
using rondo::simt::Transcript;

constexpr int kRounds = 3;
constexpr std::size_t kValuesAt = 64 << 10, kSumsAt = 128 << 10;
constexpr unsigned kMaxValues = 1024;

std::uint32_t value_of(int rank, int round, unsigned i) {
  return static_cast<std::uint32_t>(rank) * 100'000 + static_cast<std::uint32_t>(round) * 1000 + i;
}

struct Orders {  // of the barriers around the loads
  cuda::memory_order before = cuda::memory_order_acq_rel, after = cuda::memory_order_acq_rel;
};
const Transcript* const kOurs = nullptr;  // Rondo's header

struct Sums {
  ncclDevComm comm;
  ncclWindow_t window;
  const Transcript* header;
  Orders orders;

  void operator()() const {
    const unsigned cta = rondo::device::cta_index();
    if (header == kOurs) {
      ncclLsaBarrierSession<ncclCoopCta> barrier(ncclCoopCta(), comm, ncclTeamTagLsa(), cta);
      add([&](cuda::memory_order order) { barrier.sync(ncclCoopCta(), order); });
    } else {
      rondo::simt::TranscribedBarrier barrier(*header, comm, cta);
      add([&](cuda::memory_order) { barrier.sync(); });
    }
  }
  // Each thread writes a value, and adds those of all ranks between two barriers.
  template <class Meet>
  void add(Meet&& meet) const {
    using rondo::device::load;
    using rondo::device::store;
    const unsigned cta = rondo::device::cta_index(), threads = rondo::device::thread_count();
    const unsigned me = cta * threads + rondo::device::thread_index();
    auto* const own = static_cast<std::uint32_t*>(ncclGetLocalPointer(window, kValuesAt));
    auto* const sums = static_cast<std::uint32_t*>(ncclGetLocalPointer(window, kSumsAt));
    // Not the thread's own value, so that the barrier must publish what other threads wrote.
    const unsigned next = cta * threads + (rondo::device::thread_index() + 1) % threads;
    for (int round = 0; round < kRounds; ++round) {
      store(own + me, value_of(comm.rank, round, me));
      meet(orders.before);
      std::uint32_t sum = 0;
      for (int peer = 0; peer < comm.lsaSize; ++peer)
        sum += load(static_cast<std::uint32_t*>(ncclGetLsaPointer(window, kValuesAt, peer)) + next);
      store(sums + static_cast<unsigned>(round) * kMaxValues + next, sum);
      meet(orders.after);
    }
  }
};

class Team {
 public:
  Team(rondo::simt::TestMachine& machine, int ranks, unsigned ctas)
      : machine_(machine), ranks_(ranks), ctas_(ctas) {
    rondo::simt::AddressSpace& memory = machine.memory();
    base_ = memory.reserve(static_cast<std::uint64_t>(ranks) << 32, 2 << 20);
    const std::size_t bytes = 1 << 20;
    for (int r = 0; r < ranks; ++r) {
      const int file = memfd_create("window", MFD_CLOEXEC);
      if (ftruncate(file, static_cast<off_t>(bytes)) != 0) std::abort();
      memory.map(at(r), bytes, file, 0, r, ~0u, true);
      close(file);
      auto* const record = machine.allocate<ncclWindow_vidmem>(1, r);
      ncclWindow_vidmem& window = *machine.on_host(record);
      window.lsaFlatBase = reinterpret_cast<char*>(base_);
      window.lsaRank = window.worldRank = r;
      window.stride4G = 1;
      windows_.push_back(record);
    }
  }

  ncclDevComm comm_of(int rank) const {
    ncclDevComm comm{};
    comm.rank = comm.lsaRank = rank;
    comm.nRanks = comm.lsaSize = ranks_;
    comm.resourceWindow_inlined = {reinterpret_cast<char*>(base_), 1, 0};
    comm.lsaBarrier = {2, static_cast<int>(ctas_)};  // 256 bytes behind the begin
    return comm;
  }
  // Rank r runs the barriers of headers[(first + r) % n].
  void launch(unsigned threads, const std::vector<const Transcript*>& headers, std::size_t first,
              Orders orders) {
    for (int r = 0; r < ranks_; ++r) {
      const auto rank = static_cast<std::size_t>(r);
      machine_.launch(
          "sums", {.ctas = ctas_, .threads = threads, .device = r},
          Sums{comm_of(r), windows_[rank], headers[(first + rank) % headers.size()], orders});
    }
  }
  bool have_sums(unsigned threads) const {
    for (int r = 0; r < ranks_; ++r)
      for (int round = 0; round < kRounds; ++round)
        for (unsigned i = 0; i < ctas_ * threads; ++i) {
          std::uint32_t want = 0, got = 0;
          for (int p = 0; p < ranks_; ++p) want += value_of(p, round, i);
          std::memcpy(&got, host(r, kSumsAt) + (static_cast<unsigned>(round) * kMaxValues + i) * 4,
                      4);
          if (got != want) return false;
        }
    return true;
  }
  std::byte* host(int rank, std::size_t offset) const {
    return machine_.on_host(reinterpret_cast<std::byte*>(at(rank) + offset));
  }

 private:
  std::uint64_t at(int rank) const { return base_ + (static_cast<std::uint64_t>(rank) << 32); }

  rondo::simt::TestMachine& machine_;
  const int ranks_;
  const unsigned ctas_;
  std::uint64_t base_ = 0;
  std::vector<ncclWindow_t> windows_;
};

bool sums_are_right(std::uint64_t seed, bool weak, int ranks,
                    const std::vector<const Transcript*>& headers, Orders orders = {},
                    bool faulty = false) {
  rondo::simt::Random random(seed);
  rondo::simt::TestMachine machine({.seed = seed, .weak = weak, .devices = 8, .faulty = faulty});
  const unsigned ctas = 1 + static_cast<unsigned>(random.below(3)), threads = 32;
  Team team(machine, ranks, ctas);
  for (std::size_t launch = 0; launch < 2; ++launch) {  // the second continues from kept epochs
    team.launch(threads, headers, launch, orders);
    if (!machine.run() || !team.have_sums(threads)) return false;
  }
  return true;
}

void expect_sums(const std::vector<const Transcript*>& headers, std::string_view what) {
  rondo::simt::for_each_round(3, [&](std::uint64_t seed) {
    for (const int ranks : {2, 4, 8})
      for (const bool weak : {false, true})
        EXPECT_TRUE(sums_are_right(seed, weak, ranks, headers))
            << what << ", " << ranks << " ranks, seed " << seed << (weak ? ", weak" : "");
  });
}

bool is_wrong_with_some_seed(const Transcript* header, Orders orders = {}) {
  for (std::uint64_t seed = 1; seed <= 100; ++seed)
    if (!sums_are_right(seed, true, 2, {header}, orders, true)) return true;
  return false;
}

TEST(LsaBarriers, OrderWhatPeersWrite) { expect_sums({kOurs}, "Rondo's header"); }

// What NVIDIA's headers do to memory: a release with each store until 2.29, one fence from 2.30 on.
TEST(LsaBarriers, OfNvidiasHeadersOrderWhatPeersWrite) {
  for (const Transcript& one : kTranscripts) expect_sums({&one}, std::to_string(one.version));
}

// Ranks whose kernels were compiled with different headers meet, and continue each other's epochs.
TEST(LsaBarriers, OfAllHeadersMeet) {
  std::vector<const Transcript*> headers{kOurs};
  for (const Transcript& one : kTranscripts) headers.push_back(&one);
  expect_sums(headers, "all headers");
}

// Each step of the transcripts is needed, but for looks at the abort word: else the test above
// would be blind to it.
TEST(LsaBarriers, OfNvidiasHeadersNeedEachStep) {
  for (const Transcript& whole : kTranscripts) {
    EXPECT_FALSE(is_wrong_with_some_seed(&whole)) << whole.version;
    for (std::size_t i = 0; i < whole.steps.size(); ++i) {
      Transcript one = whole;
      one.steps[i] = rondo::simt::weaker(whole.steps[i]);
      if (one.steps[i].empty()) continue;
      EXPECT_TRUE(is_wrong_with_some_seed(&one))
          << whole.version << ": step " << i << ", " << one.steps[i] << " in place of "
          << whole.steps[i];
    }
  }
}

// The test sees a missing release and a missing acquire: with some seed the sums are wrong.
TEST(LsaBarriers, OrderNothingIfRelaxed) {
  for (const auto order :
       {cuda::memory_order_relaxed, cuda::memory_order_acquire, cuda::memory_order_release})
    EXPECT_TRUE(is_wrong_with_some_seed(kOurs, {order, order}))
        << "order " << static_cast<int>(order);
}

// A peer never comes, and the communicator is aborted meanwhile; or there is a limit.
TEST(LsaBarriers, EndWithTheAbortWordOrALimit) {
  for (const bool limited : {false, true}) {
    rondo::simt::TestMachine machine({.seed = 1, .devices = 8});
    Team team(machine, 2, 1);
    ncclDevComm comm = team.comm_of(0);
    comm.abortFlag = machine.allocate<std::uint32_t>(1);
    auto* const result = machine.allocate<int>(1);
    *machine.on_host(result) = -1;
    if (!limited) *machine.on_host(comm.abortFlag) = 1;
    machine.launch("alone", {.ctas = 1, .threads = 32}, [=] {
      ncclLsaBarrierSession<ncclCoopCta> barrier(ncclCoopCta(), comm, ncclTeamTagLsa(), 0);
      int got = ncclSuccess;
      if (limited)
        got = barrier.sync(ncclCoopCta(), cuda::memory_order_acq_rel, 1);
      else
        barrier.sync(ncclCoopCta(), cuda::memory_order_acq_rel);
      if (rondo::device::thread_index() == 0) rondo::device::store(result, got);
    });
    EXPECT_TRUE(machine.run());
    // The thread that waits for the peer is the first one.
    EXPECT_EQ(*machine.on_host(result), limited ? ncclTimeout : ncclSuccess);
  }
}

}  // namespace
