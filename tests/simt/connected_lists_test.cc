// SPDX-License-Identifier: Apache-2.0
// Lists of calls in one launch over connections, on the emulated machine: some ranks run a list in
// one launch, others use one launch per call. Every protocol and number of channels, in seed mode
// and in weak memory.
#include "tests/simt/connected_fixture.h"
#include "tests/simt/rounds.h"

namespace rondo::simt {
namespace {

using cuda::Protocol;
using Sum = cuda::SumMath<DataType::kInt32>;

std::int32_t value_in_list(int call, int rank, std::uint64_t i) {
  return static_cast<std::int32_t>(i * 7) + rank * 1000 + call * 100'000;
}

// Buffers of a list, separate for each call; results are compared after all calls have run.
class ListCase {
 public:
  ListCase(TestMachine& machine, ConnectedRanks& ranks, int n)
      : machine_(machine), ranks_(ranks), n_(n) {}

  void add(const ConnectedCall& call) {
    const int number = static_cast<int>(calls_.size());
    ConnectedRanks::Listed listed{call, {}, {}};
    for (int r = 0; r < n_; ++r) {
      auto* const in = machine_.allocate<std::int32_t>(call.count + 1, ranks_.device_of(r));
      for (std::uint64_t i = 0; i < call.count; ++i)
        machine_.on_host(in)[i] = value_in_list(number, r, i);
      listed.in.push_back(in);
      listed.out.push_back(in);
    }
    calls_.push_back(listed);
  }
  const std::vector<ConnectedRanks::Listed>& calls() const { return calls_; }

  bool is_right() const {
    for (std::size_t k = 0; k < calls_.size(); ++k)
      for (int r = 0; r < n_; ++r)
        if (!is_right(static_cast<int>(k), r)) return false;
    return true;
  }

 private:
  bool is_right(int number, int rank) const {
    const auto& [call, in, out] = calls_[static_cast<std::size_t>(number)];
    const auto* const got = machine_.on_host(static_cast<std::int32_t*>(out[rank]));
    for (std::uint64_t i = 0; i < call.count; ++i) {
      std::int32_t sum = 0;
      for (int r = 0; r < n_; ++r) sum += value_in_list(number, r, i);
      if (got[i] != sum) return false;
    }
    return true;
  }

  TestMachine& machine_;
  ConnectedRanks& ranks_;
  const int n_;
  std::vector<ConnectedRanks::Listed> calls_;
};

// True if the host's words show all calls, and the digest of `first`, which may fuse others.
bool have_reported(const std::vector<ConnectedCall>& calls, int channels,
                   const cuda::Control& control, const cuda::Control& first) {
  for (int c = 0; c < channels; ++c) {
    std::uint64_t run = 0;
    for (const ConnectedCall& call : calls) run += c < call.channels ? 1 : 0;
    if (control.progress[c].begun != run || control.progress[c].done != run) return false;
  }
  const auto newest = cuda::newest_launch(control.newest),
             other = cuda::newest_launch(first.newest);
  return newest && other && newest->number == calls.size() &&
         newest->call.count == calls.back().count && newest->digest == other->digest;
}

// fuses: the ranks that run the list as one launch.
bool run_lists(const MachineOptions& options, const ConnectedShape& shape,
               const std::vector<ConnectedCall>& calls, std::uint64_t fuses) {
  TestMachine machine(options);
  ConnectedRanks ranks(machine, shape);
  ListCase list(machine, ranks, shape.ranks);
  for (const ConnectedCall& call : calls) list.add(call);
  ranks.launch<Sum>(list.calls(), fuses);
  if (!machine.run()) return false;
  for (int r = 0; r < shape.ranks; ++r)
    if (!have_reported(calls, shape.channels, *machine.on_host(ranks.controls + r),
                       *machine.on_host(ranks.controls)))
      return false;
  return list.is_right();
}

// The minimum that trees need.
constexpr int kSlots = 3;
static_assert(find_row(Algorithm::kTree, Collective::kAllReduce, Where::kGpu)->min_slots == kSlots);

std::vector<ConnectedCall> some_calls(Random& random, const ConnectedShape& shape) {
  const bool trees = random.one_in(2);
  std::vector<ConnectedCall> calls;
  for (std::uint64_t k = 2 + random.below(5); k > 0; --k) {
    ConnectedCall call{
        .algorithm = trees ? Algorithm::kTree : Algorithm::kRing,
        .protocol = static_cast<Protocol>(random.below(cuda::kProtocols)),
        .count = random.one_in(5) ? 0 : 1 + random.below(random.one_in(3) ? 900 : 90)};
    call.channels = 1 + static_cast<int>(random.below(static_cast<unsigned>(shape.channels)));
    if (call.protocol != Protocol::kSimple)
      call.per_round = 64 * static_cast<unsigned>(shape.ranks);
    calls.push_back(call);
  }
  return calls;
}

TEST(ConnectedLists, BesideRanksThatLaunchCallAfterCall) {
  for_each_round(3, [](std::uint64_t seed) {
    Random random(seed);
    for (const int n : {2, 3, 5, 8}) {
      ConnectedShape shape{
          .ranks = n, .channels = 1 + static_cast<int>(random.below(3)), .slots = kSlots};
      const std::vector<ConnectedCall> calls = some_calls(random, shape);
      const MachineOptions options{
          .seed = seed, .weak = random.one_in(2), .whole_lines = true, .devices = 8};
      const std::uint64_t fuses = random.one_in(2) ? ~std::uint64_t{0} : random.below(1u << n);
      EXPECT_TRUE(run_lists(options, shape, calls, fuses))
          << n << " ranks, of which " << fuses << " fuse " << calls.size() << " calls";
      if (testing::Test::HasFailure()) return;
    }
  });
}

TEST(ConnectedLists, OfRanksOfOneDevice) {
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    Random random(seed);
    const ConnectedShape shape{.ranks = 3, .channels = 2, .slots = kSlots, .one_device = true};
    const MachineOptions options{.seed = seed, .weak = seed == 2, .whole_lines = true};
    EXPECT_TRUE(run_lists(options, shape, some_calls(random, shape), ~std::uint64_t{0}));
  }
}

TEST(ConnectedLists, AreAsLongAsTheArgumentsHold) {
  const ConnectedShape shape{.ranks = 2};
  std::vector<ConnectedCall> calls;
  while (cuda::ConnectedArgs::has_room(1, calls.size() + 1))
    calls.push_back({.count = 3 + calls.size(), .channels = 1});
  EXPECT_GE(calls.size(), 48u);
  EXPECT_TRUE(run_lists({.seed = 7, .devices = 8}, shape, calls, 1));
}

// Each call stores the ends, counters and words that the next one loads.
TEST(ConnectedLists, WaitBetweenCallsForEverySeed) {
  const std::vector<ConnectedCall> calls(6, ConnectedCall{.count = 300, .channels = 1});
  for (std::uint64_t seed = 1; seed <= 20; ++seed)
    ASSERT_TRUE(run_lists({.seed = seed, .devices = 8}, {.ranks = 2}, calls, ~std::uint64_t{0}))
        << "seed " << seed;
}

// Rank 1 never arrives. The waiting call ends by abort, and no later call begins.
TEST(ConnectedLists, EndWithTheCallThatWaited) {
  TestMachine machine({.seed = 3, .devices = 8});
  ConnectedRanks ranks(machine, {.ranks = 2});
  ListCase list(machine, ranks, 2);
  for (int k = 0; k < 3; ++k) list.add({.count = 500, .channels = 1});
  std::vector<ConnectedRanks::Listed> calls = list.calls();
  ranks.launch_on<Sum>(0, calls);
  for (int turn = 0; turn < 20000; ++turn) machine.gang().turn();
  machine.on_host(ranks.controls)[0].abort = 1;
  EXPECT_TRUE(machine.run());
  EXPECT_EQ(machine.on_host(ranks.controls)[0].progress[0].begun, 1u);
  EXPECT_EQ(machine.on_host(ranks.controls)[0].progress[0].done, 0u);
}

}  // namespace
}  // namespace rondo::simt
