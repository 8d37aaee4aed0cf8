// The agree kernel and the kernels behind it, on the emulated machine: calls that all ranks can do
// in place, mixed with calls that one rank cannot. All ranks must take the same decision.
#include "kernels/cuda/agree.h"
#include "kernels/cuda/direct.h"
#include "kernels/cuda/stored_args.h"
#include "tests/simt/machine_fixture.h"
#include "tests/simt/rounds.h"

namespace rondo::simt {
namespace {

using cuda::AgreeArgs;
using cuda::InPlaceWords;
using cuda::ReduceArgs;

constexpr int kMaxRanks = 8;
constexpr int kCalls = 4;
constexpr unsigned kShared = cuda::kResolveShared;

std::int32_t value_of(int rank, int call, std::uint64_t i) {
  return static_cast<std::int32_t>(i * 7 + static_cast<std::uint64_t>(rank) * 1000) + call * 50'000;
}

// One rank's part of all calls, in stream order.
struct Part {
  AgreeArgs agree[kCalls];
  std::uint32_t* otherwise;  // [call]: how often the in-place path was declined
};

// One rank per device. refuses(call): the rank whose buffers are unmapped in that call, or -1.
class InPlace {
 public:
  InPlace(const MachineOptions& options, int ranks, std::uint64_t count)
      : machine_(options), ranks_(ranks), count_(count) {
    auto* const controls = machine_.allocate<cuda::Control>(static_cast<std::size_t>(ranks));
    for (int r = 0; r < ranks; ++r) {
      words_.push_back(machine_.allocate<InPlaceWords>(1, r));
      input_.push_back(machine_.allocate<std::int32_t>(count * kCalls, r));
      output_.push_back(machine_.allocate<std::int32_t>(count * kCalls, r));
      otherwise_.push_back(machine_.allocate<std::uint32_t>(kCalls, r));
      barriers_.push_back(machine_.allocate<std::uint64_t>(cuda::kBarrierCtas, r));
      told_.push_back(
          machine_.allocate<std::uint64_t>(cuda::kBarrierCtas * cuda::kMaxBarrierDevices, r));
      launches_.push_back(machine_.allocate<std::uint64_t>(cuda::kBarrierCtas + 1, r) + 1);
      for (int c = 0; c < kCalls; ++c)
        for (std::uint64_t i = 0; i < count; ++i)
          machine_.on_host(input_[r])[at(c) + i] = value_of(r, c, i);
    }
    controls_ = controls;
  }

  // True if each call ran in place on all ranks if none refused, and on none otherwise.
  template <class Refuses>
  bool run(const Refuses& refuses) {
    for (int r = 0; r < ranks_; ++r) launch(part_of(r, refuses), r);
    if (!machine_.run()) return false;
    for (int c = 0; c < kCalls; ++c)
      for (int r = 0; r < ranks_; ++r)
        if (!is_right(c, r, refuses(c) < 0)) return false;
    return true;
  }
  std::uint64_t launches(int rank) const { return machine_.on_host(launches_[rank])[0]; }
  const cuda::Control& control(int rank) const { return machine_.on_host(controls_)[rank]; }

 private:
  std::uint64_t at(int call) const { return static_cast<std::uint64_t>(call) * count_; }

  bool is_right(int call, int rank, bool in_place) const {
    if (machine_.on_host(otherwise_[rank])[call] != (in_place ? 0 : 1)) return false;
    for (std::uint64_t i = 0; i < count_; ++i) {
      std::int32_t sum = 0;
      for (int s = 0; s < ranks_ && in_place; ++s) sum += value_of(s, call, i);
      if (machine_.on_host(output_[rank])[at(call) + i] != sum) return false;
    }
    return true;
  }

  template <class Refuses>
  Part part_of(int rank, const Refuses& refuses) const {
    Part part{};
    part.otherwise = otherwise_[rank];
    for (int c = 0; c < kCalls; ++c) {
      AgreeArgs& args = part.agree[c];
      args.call.arguments = words_[rank]->arguments;
      args.call.record.collective = Collective::kAllReduce;
      args.call.record.count = count_;
      args.call.ranks = ranks_, args.call.width = sizeof(std::int32_t);
      args.call.reduces = true;
      args.barrier.devices = ranks_, args.barrier.place = rank;
      args.barrier.barriers = barriers_[rank];
      args.barrier.control = controls_ + rank;
      args.barrier.launches = launches_[rank];
      args.barrier.call = args.call.record;
      for (int p = 0; p < ranks_; ++p) {
        args.barrier.told[p] = told_[p], args.barrier.rank[p] = p;
        args.words[p] = words_[p];
        if (refuses(c) == rank) continue;
        args.says[p] = {reinterpret_cast<std::uint64_t>(input_[rank] + at(c)),
                        reinterpret_cast<std::uint64_t>(output_[rank] + at(c)), 1, 0};
      }
    }
    return part;
  }

  // In one kernel, in stream order.
  void launch(const Part& part, int device) {
    const MachineShape shape{
        .ctas = 1, .threads = 64, .shared_bytes = kShared, .device = device, .cooperative = true};
    machine_.launch("agree and sum", shape, [part] {
      for (int c = 0; c < kCalls; ++c) {
        const AgreeArgs& args = part.agree[c];
        cuda::Agree::run(args);
        device::barrier();
        ReduceArgs stored;
        load_stored(&stored, static_cast<const ReduceArgs*>(args.call.arguments));
        cuda::DirectReduce<DataType::kInt32, RedOp::kSum, true>::run(stored);
        if (device::thread_index() == 0 && device::load(&args.words[args.barrier.place]->done) == 0)
          device::store(part.otherwise + c, device::load(part.otherwise + c) + 1);
        device::barrier();
      }
    });
  }

  TestMachine mutable machine_;
  const int ranks_;
  const std::uint64_t count_;
  cuda::Control* controls_ = nullptr;
  std::vector<InPlaceWords*> words_;
  std::vector<std::int32_t*> input_, output_;
  std::vector<std::uint32_t*> otherwise_;
  std::vector<std::uint64_t*> barriers_, told_, launches_;
};

TEST(AgreeKernels, AllRanksDecideAlike) {
  for_each_round(2, [](std::uint64_t seed) {
    Random random(seed);
    for (const int n : {2, 3, 5, 8}) {
      int refuser[kCalls];
      for (int& one : refuser)
        one = random.one_in(2) ? -1 : static_cast<int>(random.below(static_cast<unsigned>(n)));
      const MachineOptions options{.seed = seed, .weak = random.one_in(2), .devices = kMaxRanks};
      InPlace calls(options, n, 1 + random.below(60));
      EXPECT_TRUE(calls.run([&](int call) { return refuser[call]; })) << n << " devices";
    }
  });
}

TEST(AgreeKernels, TellHostsOfTheirLaunches) {
  InPlace calls({.seed = 3, .weak = true, .devices = kMaxRanks}, 3, 50);
  ASSERT_TRUE(calls.run([](int call) { return call == 1 ? 2 : -1; }));
  for (int r = 0; r < 3; ++r) {
    // Two launches for a call done in place, one for any other.
    EXPECT_EQ(calls.launches(r), 2u * kCalls - 1);
    EXPECT_EQ(calls.control(r).progress[0].begun, 2u * kCalls - 1);
    EXPECT_EQ(calls.control(r).progress[0].done, 2u * kCalls - 1);
  }
}

// Refused and accepted calls alternate, so that a kernel that reads the words of another call
// fails.
TEST(AgreeKernels, AreSoundForEverySeed) {
  for (const bool weak : {false, true})
    for (std::uint64_t seed = 1; seed <= 40; ++seed) {
      InPlace calls({.seed = seed, .weak = weak, .devices = kMaxRanks}, 3, 40);
      ASSERT_TRUE(calls.run([](int call) { return call % 2 == 0 ? 1 : -1; })) << "seed " << seed;
    }
}

}  // namespace
}  // namespace rondo::simt
