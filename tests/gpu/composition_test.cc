// Collectives as steps of ranks on GPUs and of their leaders: run on plain memory for many
// placements of ranks, the steps must give every rank the collective's result.
#include "collectives/gpu/composition.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace rondo::gpu {
namespace {

using By = ComposedStep::By;
using Buffer = ComposedStep::Buffer;
using Values = std::vector<std::int64_t>;

constexpr std::int64_t kUntouched = -7777777;

class Played {
 public:
  Played(const CallRecord& record, const std::vector<int>& gpu_of, std::uint64_t spare,
         bool in_place)
      : record_(record), groups_(gpu_of), spare_(spare / 8), in_place_(in_place) {
    const auto n = static_cast<std::size_t>(groups_.ranks());
    const std::size_t blocks = record.count * n;
    for (std::size_t r = 0; r < n; ++r) {
      steps_.push_back(compose(record, groups_, static_cast<int>(r), spare));
      Memory memory{Values(blocks), Values(blocks, kUntouched), Values(spare_, kUntouched), 0, 0};
      for (std::size_t i = 0; i < blocks; ++i) memory.send[i] = input(r, i);
      if (in_place) {
        memory.receive = memory.send;
        if (record.collective == Collective::kAllGather) memory.send_at = r * record.count;
        if (record.collective == Collective::kReduceScatter) memory.receive_at = r * record.count;
        if (memory.send_at != 0)
          std::copy_n(memory.send.begin(), record.count, memory.receive.begin() + memory.send_at);
      }
      memory_.push_back(std::move(memory));
    }
  }

  void run() {
    for (const auto& steps : steps_) ASSERT_EQ(steps.size(), steps_[0].size());
    for (std::size_t i = 0; i < steps_[0].size(); ++i) {
      std::map<int, std::vector<int>> takers;  // by GPU; -1: leaders
      for (int r = 0; r < groups_.ranks(); ++r) {
        const ComposedStep& step = steps_[r][i];
        if (step.by == By::kGpu) takers[groups_.gpu_of[r]].push_back(r);
        if (step.by == By::kLeaders) takers[-1].push_back(r);
        if (step.by == By::kAverage) divide(r, step);
      }
      for (const auto& [where, ranks] : takers) {
        play(ranks, i, where < 0 ? groups_.leaders() : groups_.members[where]);
        if (testing::Test::HasFatalFailure()) return;
      }
    }
    check();
  }

 private:
  struct Memory {
    Values send, receive, spare;
    std::size_t send_at, receive_at;  // used if both are one buffer
  };

  static std::int64_t input(std::size_t rank, std::size_t i) {
    return static_cast<std::int64_t>((rank + 1) * 1000 + i);
  }
  std::int64_t factor(int rank) const { return record_.op == RedOp::kPreMulSum ? rank + 2 : 1; }

  std::int64_t& at(int rank, const ComposedStep::BufferOffset& place, std::size_t i) {
    Memory& memory = memory_[static_cast<std::size_t>(rank)];
    const std::size_t index = place.offset / 8 + i;
    if (place.buffer == Buffer::kSpare) return memory.spare.at(index);
    if (place.buffer == Buffer::kReceive) return memory.receive.at(memory.receive_at + index);
    EXPECT_EQ(place.buffer, Buffer::kSend);
    return in_place_ ? memory.receive.at(memory.send_at + index) : memory.send.at(index);
  }

  void divide(int rank, const ComposedStep& step) {
    for (std::size_t i = 0; i < step.record.count; ++i) at(rank, step.send, i) /= groups_.ranks();
  }

  // Runs one call of a smaller communicator.
  void play(const std::vector<int>& ranks, std::size_t number, const std::vector<int>& members) {
    const CallRecord call = steps_[ranks[0]][number].record;
    const bool message =
        call.collective == Collective::kSend || call.collective == Collective::kRecv;
    if (message) {
      ASSERT_EQ(ranks.size(), 2u);
      const bool first_sends = call.collective == Collective::kSend;
      const int from = ranks[first_sends ? 0 : 1], to = ranks[first_sends ? 1 : 0];
      ASSERT_EQ(steps_[from][number].peer, groups_.index_of[to]);
      ASSERT_EQ(steps_[to][number].peer, groups_.index_of[from]);
      for (std::size_t i = 0; i < call.count; ++i)
        at(to, steps_[to][number].receive, i) = at(from, steps_[from][number].send, i);
      return;
    }
    ASSERT_EQ(ranks, members);
    for (const int rank : ranks) ASSERT_EQ(steps_[rank][number].record, call);
    const std::size_t m = members.size(), count = call.count;
    const bool all = call.collective == Collective::kReduceScatter ||  //
                     call.collective == Collective::kScatter;
    std::vector<Values> in;
    for (const int rank : ranks) {
      Values& values = in.emplace_back();
      const bool reads =
          (call.collective != Collective::kBroadcast && call.collective != Collective::kScatter) ||
          rank == members[static_cast<std::size_t>(call.root)];
      for (std::size_t i = 0; reads && i < count * (all ? m : 1); ++i)
        values.push_back(at(rank, steps_[rank][number].send, i) *
                         (steps_[rank][number].scaled ? factor(rank) : 1));
    }
    for (std::size_t k = 0; k < m; ++k) {
      const auto put = [&](std::size_t i, std::int64_t value) {
        at(ranks[k], steps_[ranks[k]][number].receive, i) = value;
      };
      const auto root = static_cast<std::size_t>(std::max(call.root, 0));
      for (std::size_t i = 0; i < count; ++i) {
        switch (call.collective) {
          case Collective::kAllReduce:
          case Collective::kReduce:
          case Collective::kReduceScatter: {
            if (call.collective == Collective::kReduce && k != root) break;
            std::int64_t sum = 0;
            for (const Values& values : in) sum += values[i + (all ? k * count : 0)];
            put(i, sum);
            break;
          }
          case Collective::kBroadcast:
            put(i, in[root][i]);
            break;
          case Collective::kScatter:
            put(i, in[root][k * count + i]);
            break;
          case Collective::kAllGather:
            for (std::size_t s = 0; s < m; ++s) put(s * count + i, in[s][i]);
            break;
          default:
            FAIL() << name(call.collective);
        }
      }
    }
  }

  void check() {
    const auto n = static_cast<std::size_t>(groups_.ranks());
    const auto sum = [&](std::size_t i) {
      std::int64_t total = 0;
      for (std::size_t r = 0; r < n; ++r) total += input(r, i) * factor(static_cast<int>(r));
      return record_.op == RedOp::kAvg ? total / static_cast<std::int64_t>(n) : total;
    };
    for (std::size_t r = 0; r < n; ++r) {
      const Memory& memory = memory_[r];
      for (std::size_t i = 0; i < record_.count; ++i) {
        const std::int64_t got = memory.receive[memory.receive_at + i];
        switch (record_.collective) {
          case Collective::kAllReduce:
            ASSERT_EQ(got, sum(i)) << r;
            break;
          case Collective::kReduce:
            if (static_cast<int>(r) == record_.root) {
              ASSERT_EQ(got, sum(i)) << r;
            } else if (!in_place_) {
              // Leaders may keep sums only in spare memory.
              ASSERT_EQ(got, kUntouched) << r;
            }
            break;
          case Collective::kBroadcast:
            ASSERT_EQ(got, input(static_cast<std::size_t>(record_.root), i)) << r;
            break;
          case Collective::kReduceScatter:
            ASSERT_EQ(got, sum(r * record_.count + i)) << r;
            break;
          default:
            for (std::size_t s = 0; s < n; ++s)
              ASSERT_EQ(memory.receive[s * record_.count + i], input(s, i)) << r;
        }
      }
    }
  }

  const CallRecord record_;
  const GpuGroups groups_;
  const std::size_t spare_;
  const bool in_place_;
  std::vector<std::vector<ComposedStep>> steps_;
  std::vector<Memory> memory_;
};

std::vector<int> numbered(const std::vector<int>& gpus) {
  std::vector<int> seen, result;
  for (const int gpu : gpus) {
    auto found = std::find(seen.begin(), seen.end(), gpu);
    if (found == seen.end()) found = seen.insert(seen.end(), gpu);
    result.push_back(static_cast<int>(found - seen.begin()));
  }
  return result;
}

void play_all(const std::vector<int>& gpu_of, unsigned seed) {
  std::mt19937 random(seed);
  for (const Collective which :
       {Collective::kAllReduce, Collective::kReduce, Collective::kBroadcast, Collective::kAllGather,
        Collective::kReduceScatter})
    for (const RedOp op : {RedOp::kSum, RedOp::kAvg, RedOp::kPreMulSum})
      for (const std::uint64_t count : {0, 1, 5, 40}) {
        const bool reduces = which == Collective::kAllReduce || which == Collective::kReduce ||
                             which == Collective::kReduceScatter;
        if (!reduces && op != RedOp::kSum) continue;
        const bool rooted = which == Collective::kReduce || which == Collective::kBroadcast;
        const int root = rooted ? static_cast<int>(random() % gpu_of.size()) : -1;
        // From pieces of one element to the whole at once.
        const std::uint64_t spare = 16 * gpu_of.size() * (1 + random() % 60);
        const CallRecord record{count, which, DataType::kInt64, op, 0, root};
        SCOPED_TRACE(to_string(record) + ", seed " + std::to_string(seed));
        Played(record, gpu_of, spare, random() % 2 == 0).run();
        if (testing::Test::HasFatalFailure()) return;
      }
}

TEST(Composition, IsTheCollectiveWhereverRanksAre) {
  std::vector<std::vector<int>> layouts = {
      {0, 0, 1, 1},      {0, 1, 0, 1}, {0, 0, 1}, {0, 1, 1}, {0, 0, 0, 1, 1, 1, 2, 2, 2},
      {0, 1, 2, 0, 1, 2}};
  std::mt19937 random(5);
  for (int i = 0; i < 40; ++i) {
    std::vector<int> gpus(2 + random() % 8);
    for (int& gpu : gpus) gpu = static_cast<int>(random() % 4);
    layouts.push_back(numbered(gpus));
  }
  for (std::size_t i = 0; i < layouts.size(); ++i) {
    play_all(layouts[i], static_cast<unsigned>(i));
    if (HasFatalFailure()) return;
  }
}

TEST(Composition, TakesFewStepsWhereRanksLieInBlocksOrInTurns) {
  const auto steps = [](Collective which, const std::vector<int>& gpu_of) {
    const CallRecord record{100, which, DataType::kFloat32, RedOp::kSum, 0, -1};
    return compose(record, GpuGroups(gpu_of), 0, 1 << 20).size();
  };
  const std::vector<int> blocks = {0, 0, 0, 1, 1, 1}, in_turns = {0, 1, 0, 1, 0, 1};
  EXPECT_EQ(steps(Collective::kAllReduce, blocks), 3u);
  EXPECT_EQ(steps(Collective::kAllReduce, in_turns), 3u);
  EXPECT_EQ(steps(Collective::kAllGather, blocks), 3u);
  EXPECT_EQ(steps(Collective::kAllGather, in_turns), 3u + 3u + 1u);
  EXPECT_EQ(steps(Collective::kReduceScatter, blocks), 3u);
}

TEST(Composition, TextsAreRenumbered) {
  const std::vector<int> members = {4, 7, 9};
  EXPECT_EQ(renumbered("rank 1 (pid 2) waited 1 s for ranks 0, 2, rank 1", members),
            "rank 7 (pid 2) waited 1 s for ranks 4, 9, rank 7");
  EXPECT_EQ(renumbered("rank 1's crank 1 and rank 12", members), "rank 7's crank 1 and rank 12");
  EXPECT_EQ(renumbered("rank", members), "rank");
}

}  // namespace
}  // namespace rondo::gpu
