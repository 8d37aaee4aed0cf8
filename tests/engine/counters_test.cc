// SPDX-License-Identifier: Apache-2.0
// Counters that grow with every call keep working when they pass 2^32.
#include <gtest/gtest.h>

#include "tests/support/engine_rank.h"
#include "tests/support/tagged_messages_seam.h"

namespace rondo::test {
namespace {

constexpr std::uint64_t kNearTheEnd = (std::uint64_t{1} << 32) - 2;

// Sets all counters as they are after `to` calls, steps and slots between all pairs.
void move_on(CommunicatorState& state, std::uint64_t to) {
  host::HostRank& view = state.host;
  view.sequence = view.step = to;
  HostAtomics::store_release(view.self().steps->step, to);
  HostAtomics::store_release(view.self().steps->sequence, to);
  for (int peer = 0; peer < state.members.size; ++peer) {
    if (peer == state.members.rank) continue;
    const auto out = state.connections->to(peer, 0);
    ASSERT_TRUE(out.ok());
    HostAtomics::store_release(*(*out)->tail, to);
    HostAtomics::store_release(*(*out)->head, to);
  }
}

TEST(Counters, OfCallsStepsAndSlotsPassTheEndOf32Bits) {
  constexpr int kRanks = 3;
  const Communicators comms = make_communicators(kRanks);
  std::vector<std::shared_ptr<TaggedMessages>> boxes(kRanks);
  run_ranks(comms, [&](Communicator& comm) {
    boxes[comm.rank()] = TaggedMessages::open(comms[comm.rank()], 64).value();
  });
  for (const auto& box : boxes) move_on(TaggedMessagesSeam::state(*box), kNearTheEnd);
  run_ranks(comms, [](Communicator& comm) {
    for (int i = 0; i < 20; ++i)
      for (const std::size_t count : {1u, 5000u, 300'000u}) {
        std::vector<float> in(count, 1.0f + static_cast<float>(i)), out(count);
        Call call;
        call.record = {count, Collective::kAllReduce, DataType::kFloat32, RedOp::kSum, 0, -1};
        call.send = in.data();
        call.receive = out.data();
        const Status summed = comm.run({&call, 1});
        ASSERT_TRUE(summed.ok()) << summed.error().text;
        EXPECT_EQ(out.front(), kRanks * in.front());
        EXPECT_EQ(out.back(), kRanks * in.front());
        call.record = {count, Collective::kBroadcast, DataType::kFloat32, RedOp::kSum, 0, i % 3};
        const Status sent = comm.run({&call, 1});
        ASSERT_TRUE(sent.ok()) << sent.error().text;
        EXPECT_EQ(out.back(), in.front());
      }
  });
  for (const auto& box : boxes)
    EXPECT_GT(TaggedMessagesSeam::state(*box).host.sequence, kNearTheEnd + 2);
}

}  // namespace
}  // namespace rondo::test
