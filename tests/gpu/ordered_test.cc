// SPDX-License-Identifier: Apache-2.0
// Reductions along a tree of leaves on GPUs: the bits of the serial oracle that ranks on host
// memory are compared with, however the ranks share leaves, GPUs, processes and hosts.
#include <gtest/gtest.h>

#include <random>
#include <string>

#include "tests/gpu/device_case.h"
#include "tests/support/ordered_programs.h"
#include "tests/support/seed.h"

namespace rondo::test {
namespace {

const NamedLayout kOrderedLayouts[] = {
    {"alone", {{{0}}}},
    {"threads_on_one_gpu", {{{0, 0, 0}}}},
    {"threads_on_two_gpus", {{{0, 1, 0, 1, 1}}}},
    {"two_processes", {{{0}, {1}}}},
    {"eight_in_three_processes", {{{0, 1, 2}, {0, 1}, {2, 0, 1}}}},
    {"three_share_a_gpu", {{{0}, {0}, {0}}}},
    {"mixed", {{{0}, {0}, {1}}}},
    {"hosts", {{{0}, {1}, {2}}, {"a", "b", "b"}}},
    {"hosts_by_kernels", {{{0, 1}, {2}}, {"a", "b"}, {{"RONDO_GPU_RELAY", "1"}}}},
    {"hosts_on_one_gpu", {{{0}, {0}, {0}}, {"a", "b", "b"}}},
};

class OrderedOnGpus : public testing::TestWithParam<NamedLayout> {
 protected:
  int ranks() const { return GetParam().layout.ranks(); }
  // Little scratch memory, so that long calls take several pieces.
  void run(const NcclBody& body) const {
    run_job(GetParam().layout.under({{"RONDO_GPU_STAGING", "64K"}}), body);
  }
  void SetUp() override {
    if (gpus_there() < GetParam().layout.devices()) GTEST_SKIP() << "too few GPUs";
  }
};
INSTANTIATE_TEST_SUITE_P(Of, OrderedOnGpus, testing::ValuesIn(kOrderedLayouts),
                         [](const auto& info) { return std::string(info.param.name); });

InMemory in_memory_of(GpuStream stream) {
  return [stream](Bytes& leaves, Bytes& result, const OrderedCall& call) {
    DeviceBuffer input(leaves.size() + 16, 0), output(result.size(), 0);
    input.put(leaves, 0, stream);
    output.put(result, 0, stream);
    const ncclResult_t made = call(input.data(), output.data());
    if (made != ncclSuccess) return made;
    input.get(stream);
    output.get(stream);
    EXPECT_TRUE(input.guards_intact() && output.guards_intact());
    std::copy_n(input.host(), leaves.size(), leaves.begin());
    std::copy_n(output.host(), result.size(), result.begin());
    return ncclSuccess;
  };
}

std::string run_on_gpu(const OrderedProgram& what, const NcclRank& seat, std::uint64_t seed) {
  return run_ordered(what, seat.comm, seat.rank, seat.size, seed, in_memory_of(seat.stream),
                     static_cast<cudaStream_t>(seat.stream));
}

TEST_P(OrderedOnGpus, EqualTheOracleOfTheHost) {
  const TestSeed seed;
  run([&](NcclRank& seat) {
    std::mt19937_64 random(seed.value);
    for (int i = 0; i < 40; ++i) {
      OrderedProgram what = random_ordered(seat.size, random);
      what.count = what.count % 2000;
      ASSERT_EQ(run_on_gpu(what, seat, random()), "") << "program " << i << ": " << what.text();
    }
  });
}

TEST_P(OrderedOnGpus, OfEveryTypeAndOperation) {
  run([](NcclRank& seat) {
    std::uint64_t seed = 1;
    for (int type = 0; type < kDataTypes; ++type)
      for (int op = 0; op < kRedOps; ++op) {
        const auto t = static_cast<DataType>(type);
        const auto o = static_cast<RedOp>(op);
        if (!supported(t, o)) continue;
        const OrderedProgram what{OrderedKind::kAllReduce, t, o, ++seed % 2 == 0, 8, 0, 5, false};
        ASSERT_EQ(run_on_gpu(what, seat, seed), "") << what.text();
      }
  });
}

TEST_P(OrderedOnGpus, OfLongBuffersInPieces) {
  run([](NcclRank& seat) {
    std::uint64_t seed = 1;
    for (const OrderedKind kind :
         {OrderedKind::kAllReduce, OrderedKind::kReduce, OrderedKind::kReduceScatter})
      for (const DataType type : {DataType::kFloat32, DataType::kBfloat16}) {
        std::size_t count = 20'001;
        if (kind == OrderedKind::kReduceScatter) count /= static_cast<std::size_t>(seat.size);
        const OrderedProgram what{kind, type,          RedOp::kSum, ++seed % 2 == 0,
                                  8,    seat.size - 1, count,       seed % 3 == 0};
        ASSERT_EQ(run_on_gpu(what, seat, seed), "") << what.text();
      }
  });
}

// Even runs of leaves: plain calls in tree order sum the ranks' leaves, or their sums, where GPUs
// reach each other, whatever NCCL_ALGO asks for.
const NamedLayout kEvenRunLayouts[] = {
    {"processes", {{{0}, {1}, {2}, {3}}}},
    {"processes_with_rings", {{{0}, {1}, {2}, {3}}, {}, {{"NCCL_ALGO", "Ring"}}}},
    {"threads", {{{0, 1, 2, 3}}}},
    {"share_a_gpu", {{{0}, {0}, {0}, {0}}}},
    {"two", {{{0}, {1}}}},
};
class EvenRuns : public OrderedOnGpus {};
INSTANTIATE_TEST_SUITE_P(Of, EvenRuns, testing::ValuesIn(kEvenRunLayouts),
                         [](const auto& info) { return std::string(info.param.name); });

TEST_P(EvenRuns, EqualTheOracleOfTheHost) {
  const TestSeed seed;
  run([&](NcclRank& seat) {
    std::mt19937_64 random(seed.value);
    for (int i = 0; i < 40; ++i) {
      OrderedProgram what = random_ordered(seat.size, random);
      what.leaves = seat.size << i % 3;  // evenly, in half of the programs
      if (i % 8 == 7) what.count = 40'000;
      ASSERT_EQ(run_on_gpu(what, seat, random()), "") << "program " << i << ": " << what.text();
    }
  });
}

// Leaves 2 r and 2 r + 1 of rank r, of value r + 1: exact in any order, but wrong if a call's
// scratch memory is used by another call.
struct Doubled {
  explicit Doubled(const NcclRank& made)
      : seat(made), leaves(2 * kCount * 4, 0), sum(kCount * 4, 0) {
    put(1);
    sum.put({}, 0, seat.stream);
  }
  static constexpr std::size_t kCount = 3001;
  void put(float scale) {
    const std::vector<float> numbers(2 * kCount, scale * static_cast<float>(seat.rank + 1));
    Bytes content(numbers.size() * sizeof(float));
    std::memcpy(content.data(), numbers.data(), content.size());
    leaves.put(content, 0, seat.stream);
  }
  ncclResult_t call(GpuStream stream) {
    return rondoAllReduceOrdered(leaves.data(), sum.data(), kCount, ncclFloat32, ncclSum,
                                 2 * seat.size, 2 * seat.rank, 2, rondoRoundNode, seat.comm,
                                 static_cast<cudaStream_t>(stream));
  }
  std::string wrong(float scale) {
    sum.get(seat.stream);
    const float wanted = scale * static_cast<float>(seat.size * (seat.size + 1));
    for (std::size_t i = 0; i < kCount; ++i) {
      float got = 0;
      std::memcpy(&got, sum.host() + i * sizeof(got), sizeof(got));
      if (got != wanted) return fmt::format("element {} is {}, not {}", i, got, wanted);
    }
    return {};
  }
  const NcclRank& seat;
  DeviceBuffer leaves, sum;
};

class OrderedBesideOthers : public OrderedOnGpus {};
INSTANTIATE_TEST_SUITE_P(Of, OrderedBesideOthers,
                         testing::Values(NamedLayout{"threads_on_one_gpu", {{{0, 0, 0, 0}}}},
                                         NamedLayout{"threads_on_two_gpus", {{{0, 1, 0, 1}}}},
                                         NamedLayout{"processes", {{{0}, {1}, {0, 1}}}},
                                         NamedLayout{"a_gpu_each", {{{0}, {1}, {2, 3}}}},
                                         NamedLayout{"share_a_gpu", {{{0}, {0}, {0}, {0}}}},
                                         NamedLayout{"hosts", {{{0}, {1}}, {"a", "b"}}}),
                         [](const auto& info) { return std::string(info.param.name); });

// Ranks of one process that share a GPU would have to share a graph.
class OrderedInGraphs : public OrderedOnGpus {};
INSTANTIATE_TEST_SUITE_P(Of, OrderedInGraphs,
                         testing::Values(NamedLayout{"threads", {{{0, 1}}}},
                                         NamedLayout{"processes", {{{0}, {1}, {0, 1}}}},
                                         NamedLayout{"share_a_gpu", {{{0}, {0}, {0}, {0}}}},
                                         NamedLayout{"hosts", {{{0}, {1}}, {"a", "b"}}}),
                         [](const auto& info) { return std::string(info.param.name); });

TEST_P(OrderedBesideOthers, OnSeveralStreams) {
  run([](NcclRank& seat) {
    GpuStream streams[3] = {};
    for (GpuStream& stream : streams) GPU_OK(gpu_api()->create_stream(&stream, 0));
    std::vector<Doubled> calls;
    for (int i = 0; i < 9; ++i) calls.emplace_back(seat).put(static_cast<float>(i + 1));
    for (std::size_t i = 0; i < calls.size(); ++i) NCCL_OK(calls[i].call(streams[i % 3]));
    for (GpuStream stream : streams) GPU_OK(gpu_api()->synchronize_stream(stream));
    for (std::size_t i = 0; i < calls.size(); ++i)
      EXPECT_EQ(calls[i].wrong(static_cast<float>(i + 1)), "") << i;
    for (GpuStream stream : streams) GPU_OK(gpu_api()->destroy_stream(stream));
  });
}

TEST_P(OrderedInGraphs, AmongPlainCalls) {
  run([](NcclRank& seat) {
    Doubled in_graph(seat), plain(seat);
    void* graph = nullptr;
    GPU_OK(gpu_api()->begin_capture(seat.stream, GpuCaptureMode::kThreadLocal));
    NCCL_OK(in_graph.call(seat.stream));
    GPU_OK(gpu_api()->end_capture(seat.stream, &graph));
    for (int round = 1; round < 4; ++round) {
      in_graph.put(static_cast<float>(round));
      plain.put(static_cast<float>(10 * round));
      GPU_OK(gpu_api()->launch_graph(graph, seat.stream));
      NCCL_OK(plain.call(seat.stream));
      ASSERT_EQ(in_graph.wrong(static_cast<float>(round)), "") << round;
      ASSERT_EQ(plain.wrong(static_cast<float>(10 * round)), "") << round;
    }
    GPU_OK(gpu_api()->destroy_graph(graph));
  });
}

// A group of each rank, cut at other places on other ranks; every second one also has messages.
TEST_P(OrderedBesideOthers, InGroups) {
  run([](NcclRank& seat) {
    const int next = (seat.rank + 1) % seat.size, before = (seat.rank + seat.size - 1) % seat.size;
    Doubled first(seat), second(seat);
    DeviceBuffer sum(4, 0), sent(4, 0), received(4, 0);
    sum.put(Bytes(4), 0, seat.stream);
    sent.put(Bytes(4, static_cast<std::byte>(seat.rank)), 0, seat.stream);
    received.put({}, 0, seat.stream);
    second.put(2);
    const bool grouped = seat.rank % 2 == 0;
    if (grouped) {
      NCCL_OK(ncclGroupStart());
    }
    NCCL_OK(ncclAllReduce(sum.data(), sum.data(), 1, ncclInt32, ncclSum, seat.comm, seat.stream));
    NCCL_OK(first.call(seat.stream));
    NCCL_OK(second.call(seat.stream));
    if (!grouped) {
      NCCL_OK(ncclGroupStart());
    }
    NCCL_OK(ncclSend(sent.data(), 4, ncclUint8, next, seat.comm, seat.stream));
    NCCL_OK(ncclRecv(received.data(), 4, ncclUint8, before, seat.comm, seat.stream));
    NCCL_OK(ncclGroupEnd());
    EXPECT_EQ(first.wrong(1), "");
    EXPECT_EQ(second.wrong(2), "");
    received.get(seat.stream);
    EXPECT_EQ(received.host()[3], static_cast<std::byte>(before));
  });
}

TEST_P(OrderedBesideOthers, BadLeavesAreTheSameErrorOnAllRanksWhichGoOn) {
  run([](NcclRank& seat) {
    Doubled good(seat);
    const int first = seat.rank == 1 ? 0 : 2 * seat.rank;
    EXPECT_EQ(rondoAllReduceOrdered(good.leaves.data(), good.sum.data(), 8, ncclFloat32, ncclSum,
                                    2 * seat.size, first, 2, rondoRoundNode, seat.comm,
                                    static_cast<cudaStream_t>(seat.stream)),
              ncclInvalidUsage);
    EXPECT_EQ(std::string(ncclGetLastError(seat.comm)),
              "AllReduceOrdered : leaf 0 is given twice: rank 0 has leaves 0 to 1, rank 1 has "
              "leaves 0 to 1");
    NCCL_OK(good.call(seat.stream));
    EXPECT_EQ(good.wrong(1), "");
  });
}

// Rank 0 calls in a group of two communicators, one of which has bad leaves; the others call one
// after another. What has no error must happen, on all ranks.
TEST_P(OrderedBesideOthers, BadLeavesOfOneCommunicatorHoldUpNoOther) {
  run([](NcclRank& seat) {
    Doubled of_all(seat), after(seat), of_two(seat);
    ncclComm_t two = nullptr;
    NCCL_OK(
        ncclCommSplit(seat.comm, seat.rank < 2 ? 0 : NCCL_SPLIT_NOCOLOR, seat.rank, &two, nullptr));
    const auto call_of_two = [&](int first) {
      return rondoAllReduceOrdered(of_two.leaves.data(), of_two.sum.data(), 8, ncclFloat32, ncclSum,
                                   4, first, 2, rondoRoundNode, two,
                                   static_cast<cudaStream_t>(seat.stream));
    };
    if (seat.rank == 0) {
      NCCL_OK(ncclGroupStart());
      NCCL_OK(call_of_two(0));
      NCCL_OK(of_all.call(seat.stream));
      EXPECT_EQ(ncclGroupEnd(), ncclInvalidUsage);
    } else {
      if (seat.rank == 1) {
        EXPECT_EQ(call_of_two(0), ncclInvalidUsage);
      }
      NCCL_OK(of_all.call(seat.stream));
    }
    EXPECT_EQ(of_all.wrong(1), "");
    NCCL_OK(after.call(seat.stream));
    EXPECT_EQ(after.wrong(1), "");
    if (two != nullptr) {
      NCCL_OK(call_of_two(2 * seat.rank));
      float sum = 0;
      of_two.sum.get(seat.stream);
      std::memcpy(&sum, of_two.sum.host(), sizeof(sum));
      EXPECT_EQ(sum, 6) << "a good call after the bad one";
      NCCL_OK(ncclCommDestroy(two));
    }
  });
}

class OtherOrderedCalls : public OrderedOnGpus {
 protected:
  // Rank 0 passes the first count, all others the second.
  void expect_named(std::size_t first, std::size_t second) const {
    run([&](NcclRank& seat) {
      Doubled made(seat);
      EXPECT_NE(rondoAllReduceOrdered(made.leaves.data(), made.sum.data(),
                                      seat.rank == 0 ? first : second, ncclFloat32, ncclSum,
                                      2 * seat.size, 2 * seat.rank, 2, rondoRoundOnce, seat.comm,
                                      static_cast<cudaStream_t>(seat.stream)),
                ncclSuccess);
      const std::string text = ncclGetLastError(seat.comm);
      EXPECT_NE(text.find(fmt::format("AllReduceOrdered(count {}, float32, sum", first)),
                std::string::npos)
          << text;
      EXPECT_NE(text.find(fmt::format("count {}", second)), std::string::npos) << text;
      NCCL_OK(ncclCommAbort(seat.comm));
      seat.comm = nullptr;
    });
  }
};
INSTANTIATE_TEST_SUITE_P(Of, OtherOrderedCalls,
                         testing::Values(NamedLayout{"threads_on_one_gpu", {{{0, 0, 0, 0}}}},
                                         NamedLayout{"processes", {{{0}, {1}, {0, 1}}}},
                                         NamedLayout{"hosts", {{{0}, {1}}, {"a", "b"}}}),
                         [](const auto& info) { return std::string(info.param.name); });

TEST_P(OtherOrderedCalls, AreNamedOnAllRanks) { expect_named(2, 3); }
TEST_P(OtherOrderedCalls, AreNamedIfARankHasNoElements) { expect_named(0, 3); }

TEST_P(OrderedBesideOthers, WithoutElementsAreNothingOnAllRanks) {
  run([](NcclRank& seat) {
    Doubled after(seat);
    NCCL_OK(rondoAllReduceOrdered(nullptr, nullptr, 0, ncclFloat32, ncclSum, 2 * seat.size,
                                  2 * seat.rank, 2, rondoRoundOnce, seat.comm,
                                  static_cast<cudaStream_t>(seat.stream)));
    NCCL_OK(after.call(seat.stream));
    EXPECT_EQ(after.wrong(1), "");
  });
}

}  // namespace
}  // namespace rondo::test
