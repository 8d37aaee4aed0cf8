// SPDX-License-Identifier: Apache-2.0
// Messages between processes of several ranks with blocking launches: a rank that waits for a
// message must not keep another rank of its process from sending.
#include "tests/gpu/process_bodies.h"

namespace rondo::test {
namespace {

const NamedLayout kBlockingLayouts[] = {{"of_their_own", {{{0, 1}, {2, 3}}}},
                                        {"shared", {{{0, 0}, {0, 0}}}},
                                        {"in_turns", {{{0, 1}, {0, 1}}}}};

class BlockingMessages : public testing::TestWithParam<NamedLayout> {
 protected:
  static Layout layout() {
    return GetParam().layout.under({{"CUDA_LAUNCH_BLOCKING", "1"}, {"RONDO_GPU_STAGING", "64K"}});
  }
  void SetUp() override {
    if (gpus_there() < 4) GTEST_SKIP() << "too few GPUs";
  }
};
INSTANTIATE_TEST_SUITE_P(Layouts, BlockingMessages, testing::ValuesIn(kBlockingLayouts),
                         [](const auto& info) { return std::string(info.param.name); });

constexpr std::size_t kBytes = 30'000;  // more than the slots of a pair hold

// Four ranks, two per process: 0 and 2 receive, 3 and 1 send, crosswise.
struct Exchange {
  explicit Exchange(NcclRank& of)
      : seat(of), receives(of.rank % 2 == 0), peer(3 - of.rank), buffer(kBytes, 0) {
    buffer.put(receives ? Bytes() : Bytes(kBytes, static_cast<std::byte>(of.rank)), 0, of.stream);
  }
  void call() {
    if (receives) {
      NCCL_OK(ncclRecv(buffer.data(), kBytes, ncclUint8, peer, seat.comm, seat.stream));
    } else {
      NCCL_OK(ncclSend(buffer.data(), kBytes, ncclUint8, peer, seat.comm, seat.stream));
    }
  }
  void check() {
    buffer.get(seat.stream);
    ASSERT_TRUE(buffer.guards_intact());
    const Bytes want(kBytes, static_cast<std::byte>(receives ? peer : seat.rank));
    ASSERT_EQ(std::memcmp(buffer.host(), want.data(), kBytes), 0) << "rank " << seat.rank;
  }

  NcclRank& seat;
  const bool receives;
  const int peer;
  DeviceBuffer buffer;
};

TEST_P(BlockingMessages, AreReceivedWhileOtherThreadsSend) {
  run_job(layout(), [](NcclRank& seat) {
    Exchange exchange(seat);
    if (!exchange.receives) nap(0.3);  // until both receivers are in their calls
    for (int i = 0; i < 3; ++i) exchange.call();
    exchange.check();
  });
}

TEST_P(BlockingMessages, AreReceivedBesideSendsOfOneGroupOfOneThread) {
  run_job(layout(), [](Ranks<NcclRank>& ranks) {
    ranks.each([](NcclRank& one) { one.join(); });
    std::vector<Exchange> exchanges;
    exchanges.reserve(2);
    for (int i = 0; i < ranks.size(); ++i) {
      GPU_OK(gpu_api()->set_device(ranks[i].device));
      exchanges.emplace_back(ranks[i]);
    }
    NCCL_OK(ncclGroupStart());
    for (Exchange& exchange : exchanges) exchange.call();
    NCCL_OK(ncclGroupEnd());
    for (Exchange& exchange : exchanges) exchange.check();
    exchanges.clear();
    ranks.each([](NcclRank& one) { one.leave(); });
  });
}

}  // namespace
}  // namespace rondo::test
