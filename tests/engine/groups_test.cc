// SPDX-License-Identifier: Apache-2.0
// Groups of small calls run as one fused call. Results equal those of the single calls, and
// mismatches are reported by name.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <random>

#include "kernels/reduce.h"
#include "tests/support/engine_rank.h"
#include "tests/support/processes.h"
#include "tests/support/reference.h"
#include "tests/support/sample_calls.h"
#include "tests/support/seed.h"
#include "tests/support/tagged_messages_seam.h"

namespace rondo::test {
namespace {

constexpr Collective kFusable[] = {
    Collective::kAllReduce,     Collective::kReduce,   Collective::kBroadcast,
    Collective::kAllGather,     Collective::kGather,   Collective::kScatter,
    Collective::kReduceScatter, Collective::kAllToAll,
};

// One call of a group and its buffers; the output is between guard bytes.
struct GroupedCall {
  static constexpr std::size_t kGuard = 64;
  static constexpr std::byte kFill{0xa5};

  GroupedCall(const Case& c, int rank, bool in_place)
      : c(c), rank(rank), input(make_input(c, rank)) {
    const std::size_t width = size_of(c.type);
    output.assign(std::max(input.size(), output_elements(c) * width) + 2 * kGuard, kFill);
    call.record = {c.count, c.collective, c.type, c.op, 0, has_root(c.collective) ? c.root : -1};
    const Bytes scalar = make_scalar(c, rank);
    std::memcpy(call.scalar.data(), scalar.data(), width);
    call.send = input.data();
    call.receive = output.data() + kGuard;
    if (in_place) {
      std::memcpy(call.receive, input.data(), input.size());
      call.send = call.receive;
    }
  }

  std::string check() const {
    const Bytes want = expected_output(c, rank);
    const std::size_t width = size_of(c.type);
    const std::ptrdiff_t at =
        first_difference(c.type, output.data() + kGuard, want.data(), want.size() / width);
    if (at >= 0)
      return fmt::format("{} {} {} count {} n={} rank {}: element {}", name(c.collective),
                         name(c.type), name(c.op), c.count, c.ranks, rank, at);
    for (std::size_t i = 0; i < kGuard; ++i)
      if (output[i] != kFill || output[output.size() - 1 - i] != kFill) return "guard overwritten";
    return "";
  }

  Case c;
  int rank;
  Bytes input, output;
  Call call;
};

// A random group of `calls` calls, in runs of one kind, type and operation; the same on every rank.
std::vector<Case> random_group(std::mt19937& random, int n, int calls) {
  std::vector<Case> group;
  while (static_cast<int>(group.size()) < calls) {
    Case c;
    c.ranks = n;
    c.collective = kFusable[random() % std::size(kFusable)];
    do {
      c.type = static_cast<DataType>(random() % kDataTypes);
      c.op = reduces(c.collective) ? static_cast<RedOp>(random() % kRedOps) : RedOp::kSum;
    } while (!supported(c.type, c.op));
    c.root = static_cast<int>(random() % n);
    for (auto left = 1 + random() % 12; left > 0; --left) {
      const std::size_t counts[] = {1, 3, 17, 100, 511, 1500, 5000};
      c.count = counts[random() % std::size(counts)] + random() % 3;
      c.seed = static_cast<unsigned>(random());
      group.push_back(c);
    }
  }
  return group;
}

std::string run_group(Communicator& comm, const std::vector<Case>& cases) {
  std::vector<std::unique_ptr<GroupedCall>> grouped;
  std::vector<Call> calls;
  for (const Case& c : cases) {
    const bool in_place = c.collective == Collective::kAllReduce && c.seed % 2 == 0;
    grouped.push_back(std::make_unique<GroupedCall>(c, comm.rank(), in_place));
    calls.push_back(grouped.back()->call);
  }
  if (const Status ran = comm.run(calls); !ran.ok()) return ran.error().text;
  for (const auto& one : grouped)
    if (std::string wrong = one->check(); !wrong.empty()) return wrong;
  return "";
}

std::vector<Case> small_all_reduces(int n, int calls, std::size_t count) {
  std::vector<Case> group;
  for (int i = 0; i < calls; ++i)
    group.push_back({Collective::kAllReduce, DataType::kFloat32, RedOp::kSum, n, 0, count,
                     static_cast<unsigned>(i + 1)});
  return group;
}

class GroupedCalls : public testing::TestWithParam<int> {};

TEST_P(GroupedCalls, EqualTheReferenceAsThreads) {
  const int n = GetParam();
  const Communicators comms = make_communicators(n);
  const TestSeed seed;
  std::mt19937 random(seed.value);
  for (int round = 0; round < 20; ++round) {
    const std::vector<Case> group = random_group(random, n, 40);
    run_ranks(comms, [&](Communicator& comm) { EXPECT_EQ(run_group(comm, group), ""); });
    if (HasFailure()) return;
  }
}

TEST_P(GroupedCalls, EqualTheReferenceAsProcesses) {
  const int n = GetParam();
  RankProcesses ranks(n, short_timeouts(), [&](EngineRank& seat) {
    std::mt19937 random(4711);
    for (int round = 0; round < 10; ++round) {
      const std::string wrong = run_group(*seat.comm, random_group(random, n, 40));
      seat.expect(wrong.empty(), wrong);
    }
    // Longer than one fused call, and longer than a round.
    const std::string wrong = run_group(*seat.comm, small_all_reduces(n, 600, 1000));
    seat.expect(wrong.empty(), wrong);
    if (n > 1)
      seat.expect(seat.comm->describe_ranks().find("grouped") != std::string::npos,
                  "the group was not fused");
  });
  ASSERT_TRUE(ranks.wait_exits());
  ranks.check_expectations();
}

INSTANTIATE_TEST_SUITE_P(Ranks, GroupedCalls, testing::Values(1, 2, 3, 8),
                         testing::PrintToStringParamName());

TEST(Groups, RunAlongConnectionsWhereAlgorithmsAreRestricted) {
  setenv("NCCL_ALGO", "ring", 1);
  const Communicators comms = make_communicators(3);
  unsetenv("NCCL_ALGO");
  run_ranks(comms, [&](Communicator& comm) {
    EXPECT_EQ(run_group(comm, small_all_reduces(3, 5, 100)), "");
    EXPECT_EQ(name(comm.last_plan().algorithm), "ring");
  });
}

TEST(Groups, HoldMessagesBesideCollectives) {
  const Communicators comms = make_communicators(2);
  run_ranks(comms, [&](Communicator& comm) {
    int out = comm.rank() + 5, in = 0;
    SampleCall first(Collective::kAllReduce, 10, 2), second(Collective::kAllReduce, 20, 2);
    const Call calls[] = {first.call, message(Collective::kSend, 1 - comm.rank(), &out, 1),
                          second.call, message(Collective::kRecv, 1 - comm.rank(), &in, 1)};
    ASSERT_TRUE(comm.run(calls).ok());
    EXPECT_EQ(in, 6 - comm.rank());
    EXPECT_EQ(first.output()[9], 2);
    EXPECT_EQ(second.output()[19], 2);
  });
}

// A fused call lists at most kMaxGrouped calls; longer groups are cut.
TEST(Groups, OfLengthsAroundTheLongestFusedCallAreCutThere) {
  const Communicators comms = make_communicators(2);
  std::shared_ptr<TaggedMessages> boxes[2];
  run_ranks(comms, [&](Communicator& comm) {
    boxes[comm.rank()] = TaggedMessages::open(comms[comm.rank()], 64).value();
  });
  for (const int calls : {kMaxGrouped - 1, kMaxGrouped, kMaxGrouped + 1, kMaxGrouped + 2,
                          kMaxGrouped + 3, 300, 2 * kMaxGrouped, 2 * kMaxGrouped + 1}) {
    SCOPED_TRACE(fmt::format("{} calls", calls));
    run_ranks(comms, [&](Communicator& comm) {
      const host::HostRank& view = TaggedMessagesSeam::state(*boxes[comm.rank()]).host;
      const std::uint64_t before = view.sequence;
      EXPECT_EQ(run_group(comm, small_all_reduces(2, calls, 5)), "");
      const int fused = (calls + kMaxGrouped - 1) / kMaxGrouped;
      EXPECT_EQ(view.sequence - before, static_cast<std::uint64_t>(fused));
      EXPECT_EQ(view.self().identity->pid, getpid()) << "words behind the list were written";
    });
  }
}

struct Odd {
  const char* what;
  std::vector<std::size_t> counts;  // counts of rank 1's group; rank 0's are {100, 200, 300}
  const char* mine;
  const char* theirs;
};

// Every rank's error names the call that differs on both ranks.
TEST(Groups, MadeDifferentlyAreNamed) {
  const Odd odds[] = {
      {"count",
       {100, 222, 300},
       "AllReduce(count 200, int32, sum) as number 2 of 3 grouped calls",
       "AllReduce(count 222, int32, sum) as number 2 of 3 grouped calls"},
      {"counts of the same sum",
       {100, 300, 200},
       "AllReduce(count 200, int32, sum) as number 2 of 3 grouped calls",
       "AllReduce(count 300, int32, sum) as number 2 of 3 grouped calls"},
      {"length",
       {100, 200},
       "AllReduce(count 300, int32, sum) as number 3 of 3 grouped calls",
       "AllReduce(count 200, int32, sum) as the last of 2 grouped calls"},
      {"no group",
       {100},
       "AllReduce(count 200, int32, sum) as number 2 of 3 grouped calls",
       "AllReduce(count 100, int32, sum) alone"},
  };
  for (const Odd& odd : odds) {
    const Communicators comms = make_communicators(2, short_timeouts());
    run_ranks(comms, [&](Communicator& comm) {
      const std::vector<std::size_t> counts =
          comm.rank() == 0 ? std::vector<std::size_t>{100, 200, 300} : odd.counts;
      std::vector<std::unique_ptr<SampleCall>> samples;
      std::vector<Call> calls;
      for (const std::size_t count : counts) {
        samples.push_back(std::make_unique<SampleCall>(Collective::kAllReduce, count, 2));
        calls.push_back(samples.back()->call);
      }
      const Status ran = comm.run(calls);
      ASSERT_FALSE(ran.ok()) << odd.what;
      EXPECT_EQ(ran.code(), StatusCode::kInvalidUsage) << ran.error().text;
      EXPECT_NE(ran.error().text.find(odd.mine), std::string::npos) << ran.error().text;
      EXPECT_NE(ran.error().text.find(odd.theirs), std::string::npos) << ran.error().text;
      EXPECT_NE(ran.error().text.find("grouped alike"), std::string::npos) << ran.error().text;
      for (const auto& sample : samples) EXPECT_TRUE(sample->guards_intact());
    });
  }
}

// The last call of a group differs. The error gives its index in the fused call that contains it.
TEST(Groups, MadeDifferentlyNearTheLongestFusedCallAreNamed) {
  const std::pair<int, const char*> ends[] = {
      {kMaxGrouped, " as number 253 of 253 grouped calls"},
      {kMaxGrouped + 1, ""},
      {kMaxGrouped + 2, " as number 2 of 2 grouped calls"},
      {300, " as number 47 of 47 grouped calls"},
  };
  for (const auto& [calls, place] : ends) {
    const Communicators comms = make_communicators(2, short_timeouts());
    run_ranks(comms, [&, calls = calls, place = place](Communicator& comm) {
      std::vector<std::unique_ptr<SampleCall>> samples;
      std::vector<Call> group;
      for (int i = 0; i < calls; ++i) {
        const std::size_t count = i + 1 < calls ? 3 : 7 + comm.rank();
        samples.push_back(std::make_unique<SampleCall>(Collective::kAllReduce, count, 2));
        group.push_back(samples.back()->call);
      }
      const Status ran = comm.run(group);
      ASSERT_FALSE(ran.ok()) << calls;
      const std::string wanted = fmt::format(
          "in call {}, rank {} called AllReduce(count {}, int32, sum){} and rank {} called "
          "AllReduce(count {}, int32, sum){}; all ranks",
          calls > kMaxGrouped ? 2 : 1, 0, 7, place, 1, 8, place);
      EXPECT_NE(ran.error().text.find(wanted), std::string::npos)
          << calls << " calls: " << ran.error().text << "\nwanted: " << wanted;
      for (const auto& sample : samples) EXPECT_TRUE(sample->guards_intact());
    });
  }
}

}  // namespace
}  // namespace rondo::test
