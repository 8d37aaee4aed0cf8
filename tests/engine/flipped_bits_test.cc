// SPDX-License-Identifier: Apache-2.0
// RONDO_VERIFY: a bit that flips in an output is found and named, alike on every rank.
#include <gtest/gtest.h>

#include <algorithm>
#include <barrier>
#include <cstring>
#include <memory>
#include <span>

#include "collectives/host/verified_calls.h"
#include "tests/support/check_call.h"
#include "tests/support/engine_rank.h"
#include "tests/support/environment.h"
#include "tests/support/reference.h"

namespace rondo::test {
namespace {

Communicators verified_communicators(int n) {
  const WithEnvironment verify("RONDO_VERIFY", "1");
  return make_communicators(n);
}

constexpr int kFlipRanks = 3, kBadRank = 1;
constexpr std::size_t kFlipCount = 20'000, kWrongAt = 12'345;

// Ranks without an engine: a call writes what the reference says, and threads exchange by a
// barrier. So a test can change a result between the call and the comparison.
struct PlainRanks {
  explicit PlainRanks(int n) : meeting(n), sent(static_cast<std::size_t>(n)) {}

  Status gather(int rank, const Call& call) {
    sent[static_cast<std::size_t>(rank)] = static_cast<const std::byte*>(call.send);
    meeting.arrive_and_wait();
    auto* to = static_cast<std::byte*>(call.receive);
    for (const std::byte* from : sent) {
      std::memcpy(to, from, call.record.count);
      to += call.record.count;
    }
    meeting.arrive_and_wait();
    return ok_status();
  }

  std::barrier<> meeting;
  std::vector<const std::byte*> sent;
};

struct PlainRank : RankContext {
  PlainRank(PlainRanks& all, int number, int n)
      : verified(*this, [&all, number](const Call& call) { return all.gather(number, call); }) {
    members.rank = number;
    members.size = n;
    members.ranks.resize(static_cast<std::size_t>(n));
    for (int r = 0; r < n; ++r) {
      RankFacts& facts = members.ranks[static_cast<std::size_t>(r)];
      facts.rank = r, facts.pid = 100 + r, facts.hostname = "node" + std::to_string(r);
    }
    verified.start(1, bootstrap::Secret());
  }

  // Makes the call, with `damage` to its output.
  Status run(const Case& c, const std::function<void(std::vector<std::byte>&)>& damage) {
    const Bytes input = make_input(c, members.rank);
    std::vector<std::byte> output(output_elements(c) * size_of(c.type));
    VerifiedCall call;
    call.record = {c.count, c.collective, c.type, c.op, 0, is_rooted(c.collective) ? c.root : -1};
    call.count = c.count;
    call.input = input.data();
    call.output = output.data();
    const bool due = verified.is_next_due();
    EXPECT_TRUE(due);
    return verified.run(call, [&] {
      ++host.sequence;
      const Bytes right = expected_output(c, members.rank);
      std::copy(right.begin(), right.end(), output.begin());
      damage(output);
      return ok_status();
    });
  }

  VerifiedCalls verified;
};

class FlippedBitIn : public testing::TestWithParam<Collective> {};

TEST_P(FlippedBitIn, IsFoundAndNamedAlikeOnEveryRank) {
  const Case c{GetParam(), DataType::kInt32, RedOp::kSum, kFlipRanks, kBadRank, kFlipCount, 7};
  PlainRanks all(kFlipRanks);
  std::vector<std::string> texts(kFlipRanks);
  on_threads(kFlipRanks, [&](int rank) {
    PlainRank self(all, rank, kFlipRanks);
    ASSERT_TRUE(self.run(c, [](auto&) {}).ok());
    std::int32_t got = 0, want = 0;
    const Status found = self.run(c, [&](std::vector<std::byte>& output) {
      if (rank != kBadRank) return;
      std::byte* const at = output.data() + kWrongAt * sizeof(got);
      std::memcpy(&want, at, sizeof(want));
      at[2] ^= std::byte{16};
      std::memcpy(&got, at, sizeof(got));
    });
    ASSERT_EQ(found.code(), StatusCode::kSystemError);
    const auto fault = self.faults.fault();
    ASSERT_TRUE(fault.has_value());
    EXPECT_EQ(fault->culprit, kBadRank);
    EXPECT_EQ(fault->sequence, 2u);
    texts[static_cast<std::size_t>(rank)] = found.error().text;
    if (rank != kBadRank) return;
    const CallRecord record{
        kFlipCount, c.collective, c.type, c.op, 0, is_rooted(c.collective) ? kBadRank : -1};
    const bool sum = reduces(c.collective);
    const int source = is_rooted(c.collective) && c.collective != Collective::kGather ? 1 : 0;
    const bool whole = c.collective != Collective::kAllGather &&
                       c.collective != Collective::kGather && c.collective != Collective::kAllToAll;
    EXPECT_EQ(
        found.error().text,
        fmt::format("Corrupt data: in call 2, {}, element {} is {} on rank 1 (pid 101 on "
                    "node1), but {} {}; RONDO_VERIFY found 1 of {} compared elements wrong "
                    "there, and wrong elements on rank 1 of 3; run rondo doctor --self-test on "
                    "these hosts: their memory, processors or links corrupt data",
                    to_string(record), kWrongAt, got,
                    sum ? "the inputs of all ranks give" : fmt::format("rank {} sent", source),
                    want, whole ? kFlipCount : kFlipRanks * kFlipCount));
  });
  EXPECT_EQ(texts[0], texts[1]);
  EXPECT_EQ(texts[2], texts[1]);
}

INSTANTIATE_TEST_SUITE_P(Collective, FlippedBitIn, testing::ValuesIn(kAllCollectives),
                         [](const auto& info) { return name(info.param); });

TEST(FlippedBits, NameAllRanksThatHaveAWrongElement) {
  const Case c{Collective::kAllReduce, DataType::kFloat32, RedOp::kSum, 4, 0, 100, 7};
  PlainRanks all(4);
  on_threads(4, [&](int rank) {
    PlainRank self(all, rank, 4);
    const Status found = self.run(c, [&](std::vector<std::byte>& output) {
      if (rank >= 2) output[40] ^= std::byte{1};
    });
    ASSERT_FALSE(found.ok());
    EXPECT_NE(found.error().text.find("wrong elements on ranks 2, 3 of 4"), std::string::npos);
    EXPECT_NE(found.error().text.find("element 10 is "), std::string::npos) << found.error().text;
    EXPECT_EQ(self.faults.fault()->culprit, -1);
  });
}

// Of a long call only a slice is compared: 1 MiB over all ranks.
TEST(FlippedBits, OfLongCallsCompareARandomPart) {
  const Case c{Collective::kAllReduce, DataType::kInt32, RedOp::kSum, 2, 0, 1 << 20, 7};
  PlainRanks all(2);
  on_threads(2, [&](int rank) {
    PlainRank self(all, rank, 2);
    const Status found = self.run(c, [&](std::vector<std::byte>& output) {
      for (std::size_t i = 0; i < output.size(); i += 4096) output[i] ^= std::byte{1};
    });
    ASSERT_FALSE(found.ok());
    EXPECT_NE(found.error().text.find("found 128 of 131072 compared"), std::string::npos)
        << found.error().text;
  });
}

// ---- a bit flips under the engine ----

// Damages this thread's output whenever a call has copied or added a long piece.
thread_local std::span<std::int32_t> damaged;

int damaging_pool(std::int64_t begin, std::int64_t end, std::int64_t,
                  void (*range)(std::int64_t, std::int64_t, void*), void* context) {
  range(begin, end, context);
  for (std::size_t i = 0; i < damaged.size(); i += 16) damaged[i] = 0x7aaaaaaa;
  return 0;
}

TEST(FlippedBits, OfTheEngineEndEveryRankWithTheSameFault) {
  const Communicators comms = verified_communicators(2);
  run_ranks(comms, [&](Communicator& comm) {
    set_pool(comm, damaging_pool);
    std::vector<std::int32_t> input(2 << 20, 1 + comm.rank()), output(2 << 20);
    Call call;
    call.record = {input.size(), Collective::kAllReduce, DataType::kInt32, RedOp::kSum, 0, -1};
    call.send = input.data();
    call.receive = output.data();
    if (comm.rank() == 1) damaged = output;
    const Status ran = comm.run({&call, 1});
    damaged = {};
    ASSERT_EQ(ran.code(), StatusCode::kSystemError);
    EXPECT_NE(ran.error().text.find("Corrupt data: in call 1, AllReduce"), std::string::npos)
        << ran.error().text;
    EXPECT_NE(ran.error().text.find("wrong elements on rank 1 of 2"), std::string::npos)
        << ran.error().text;
    EXPECT_EQ(comm.run({&call, 1}).code(), StatusCode::kSystemError) << "the fault stays";
  });
}

// The outputs of two calls of a fused group are one buffer.
TEST(FlippedBits, OfAGroupNameTheCallOfTheGroup) {
  const Communicators comms = verified_communicators(kFlipRanks);
  run_ranks(comms, [&](Communicator& comm) {
    std::vector<std::int32_t> input(40 * 1000), output(40 * 1000);
    for (std::size_t i = 0; i < input.size(); ++i) input[i] = static_cast<std::int32_t>(i);
    std::vector<Call> group(40);
    for (std::size_t i = 0; i < group.size(); ++i) {
      group[i].record = {1000, Collective::kAllReduce, DataType::kInt32, RedOp::kSum, 0, -1};
      group[i].send = &input[i * 1000];
      group[i].receive = &output[i * 1000];
    }
    const Status right = comm.run(group);
    ASSERT_TRUE(right.ok()) << right.error().text;
    if (comm.rank() == kBadRank) group[3].receive = group[4].receive;
    const Status ran = comm.run(group);
    ASSERT_FALSE(ran.ok());
    EXPECT_NE(ran.error().text.find("element 0 of the group's call "), std::string::npos)
        << ran.error().text;
    EXPECT_NE(ran.error().text.find("wrong elements on rank 1 of 3"), std::string::npos)
        << ran.error().text;
    EXPECT_NE(ran.error().text.find("grouped"), std::string::npos) << ran.error().text;
  });
}

// Each rank sends 10,000 (d + 1) elements to rank d, and none to itself. Then the data of two ranks
// arrive in one buffer.
TEST(FlippedBits, WithACountPerPairCompareEachPair) {
  const Communicators comms = verified_communicators(kFlipRanks);
  run_ranks(comms, [&](Communicator& comm) {
    const auto count_of = [](int from, int to) {
      return static_cast<std::size_t>(from == to ? 0 : 10'000 * (to + 1));
    };
    std::vector<std::vector<std::int32_t>> in(kFlipRanks), out(kFlipRanks);
    auto parts = std::make_shared<std::vector<Call>>();
    for (int peer = 0; peer < kFlipRanks; ++peer) {
      const auto p = static_cast<std::size_t>(peer);
      in[p].assign(count_of(comm.rank(), peer), 100 * comm.rank() + peer);
      out[p].assign(count_of(peer, comm.rank()), 0);
      Call send, receive;
      send.record = {in[p].size(), Collective::kSend, DataType::kInt32, RedOp::kSum, 0, -1};
      receive.record = {out[p].size(), Collective::kRecv, DataType::kInt32, RedOp::kSum, 0, -1};
      send.peer = receive.peer = peer;
      send.send = in[p].data();
      receive.receive = out[p].data();
      parts->push_back(send);
      parts->push_back(receive);
    }
    Call whole;
    whole.record = {0, Collective::kAllToAllV, DataType::kInt32, RedOp::kSum, 0, -1};
    whole.parts = parts;
    Status ran = comm.run({&whole, 1});
    ASSERT_TRUE(ran.ok()) << ran.error().text;
    if (comm.rank() == 2) (*parts)[1].receive = out[1].data();  // also rank 0's
    ran = comm.run({&whole, 1});
    ASSERT_EQ(ran.code(), StatusCode::kSystemError);
    EXPECT_NE(ran.error().text.find("AllToAllV"), std::string::npos) << ran.error().text;
    EXPECT_NE(ran.error().text.find("wrong elements on rank 2 of 3"), std::string::npos)
        << ran.error().text;
  });
}

}  // namespace
}  // namespace rondo::test
