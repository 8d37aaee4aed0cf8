// SPDX-License-Identifier: Apache-2.0
// The parts of the trainer that can be tested in one process.
#include <gtest/gtest.h>

#include <fstream>

#include "checkpoint.h"
#include "hash.h"
#include "multiply.h"
#include "shards.h"
#include "trainer_job.h"

namespace train {
namespace {

TEST(TrainerShards, SumsFollowTheBalancedTree) {
  const auto text_of = [](int count) {
    std::vector<std::string> parts;
    for (int i = 0; i < count; ++i) parts.push_back(std::to_string(i));
    sum_in_tree(count, [&](int into, int from) {
      parts[into] = "(" + parts[into] + "+" + parts[from] + ")";
    });
    return parts[0];
  };
  EXPECT_EQ(text_of(1), "0");
  EXPECT_EQ(text_of(4), "((0+1)+(2+3))");
  EXPECT_EQ(text_of(6), "(((0+1)+(2+3))+(4+5))");
  EXPECT_EQ(text_of(7), "(((0+1)+(2+3))+((4+5)+6))");
}

TEST(TrainerShards, RanksShareAllShardsInOrderAndEvenly) {
  for (int shards = 1; shards <= 16; ++shards)
    for (int ranks = 1; ranks <= shards; ++ranks) {
      int next = 0;
      for (int r = 0; r < ranks; ++r) {
        const ShardRange range = shards_of(r, ranks, shards);
        EXPECT_EQ(range.begin, next);
        EXPECT_GE(range.count(), shards / ranks);
        EXPECT_LE(range.count(), (shards + ranks - 1) / ranks);
        next = range.end;
      }
      EXPECT_EQ(next, shards);
    }
}

TEST(TrainerMultiply, EqualsTheDefinitionForEveryRemainder) {
  for (int m : {1, 3, 4, 7})
    for (int n : {1, 15, 16, 33})
      for (int k : {1, 2, 9}) {
        std::vector<float> a(m * k), b(k * n), c(m * n, -1);
        for (std::size_t i = 0; i < a.size(); ++i) a[i] = static_cast<float>(i % 7) - 3;
        for (std::size_t i = 0; i < b.size(); ++i) b[i] = static_cast<float>(i % 5) - 2;
        // Small whole numbers, so every order of summation is exact. Also read as its own
        // transpose.
        for (const Strided& view : {Strided{a.data(), k, 1}, Strided{a.data(), 1, m}}) {
          multiply(c.data(), n, view, b.data(), n, m, n, k);
          for (int i = 0; i < m; ++i)
            for (int j = 0; j < n; ++j) {
              float expected = 0;
              for (int l = 0; l < k; ++l)
                expected += view.data[i * view.row + l * view.column] * b[l * n + j];
              ASSERT_EQ(c[i * n + j], expected) << m << " x " << n << " x " << k;
            }
        }
      }
}

class TrainerCheckpoint : public ::testing::Test {
 protected:
  TrainerCheckpoint() {
    for (std::size_t i = 0; i < state_.size(); ++i)
      state_[i] = static_cast<float>(uniform_at(7, i));
    EXPECT_EQ(save_checkpoint(path_, facts_, 42, state_), "");
    std::ifstream in(path_, std::ios::binary);
    bytes_.assign(std::istreambuf_iterator<char>(in), {});
  }

  std::string load(const RunFacts& facts) {
    read_.assign(state_.size(), 0);
    return load_checkpoint(path_, facts, &step_, &read_);
  }
  std::string load_bytes(const std::string& bytes) {
    std::ofstream(path_, std::ios::binary) << bytes;
    return load(facts_);
  }

  trainer_test::Workplace place_;
  std::string path_ = place_.file("checkpoint"), bytes_;
  RunFacts facts_{256, 8, 32, 16, 256, 86, 1, 99, 0.003};
  std::vector<float> state_ = std::vector<float>(1000), read_;
  std::int64_t step_ = -1;
};

TEST_F(TrainerCheckpoint, GivesBackWhatWasSaved) {
  EXPECT_EQ(load(facts_), "");
  EXPECT_EQ(step_, 42);
  EXPECT_EQ(read_, state_);
}

TEST_F(TrainerCheckpoint, AnyFlippedByteIsRefused) {
  for (std::size_t at = 0; at < bytes_.size(); at += at < 200 ? 1 : 37) {
    std::string damaged = bytes_;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x10);
    EXPECT_NE(load_bytes(damaged), "") << "byte " << at;
    EXPECT_EQ(read_, std::vector<float>(state_.size())) << "believed in part";
  }
}

TEST_F(TrainerCheckpoint, AnyLengthIsRefusedButTheFull) {
  for (std::size_t length = 0; length < bytes_.size(); length += length < 200 ? 1 : 37)
    EXPECT_NE(load_bytes(bytes_.substr(0, length)).find("cut short"), std::string::npos) << length;
}

TEST_F(TrainerCheckpoint, AnotherRunsCheckpointIsRefusedByName) {
  RunFacts other = facts_;
  other.batch = 128;
  EXPECT_NE(load(other).find("--batch 256, not 128"), std::string::npos) << load(other);
  other = facts_;
  other.text_hash ^= 1;
  EXPECT_NE(load(other).find("another --text"), std::string::npos) << load(other);
}

TEST_F(TrainerCheckpoint, AMissingFileIsNamedWithTheRemedy) {
  path_ = place_.file("nowhere");
  EXPECT_NE(load(facts_).find("leave out --resume"), std::string::npos) << load(facts_);
}

TEST_F(TrainerCheckpoint, AFailedSaveLeavesTheOldOne) {
  EXPECT_NE(save_checkpoint(place_.file("no/such/directory"), facts_, 43, state_), "");
  EXPECT_EQ(load(facts_), "");
  EXPECT_EQ(step_, 42);
}

}  // namespace
}  // namespace train
