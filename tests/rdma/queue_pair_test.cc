// SPDX-License-Identifier: Apache-2.0
// Queue pairs of one process: what arrives, and which errors are reported.
#include "transport/verbs/ibverbs/queue_pair.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <cstring>
#include <string>

#include "tests/rdma/ends.h"
#include "topology/small_file.h"

namespace rondo::verbs {
namespace {

using testing::HasSubstr;

void fill(std::span<std::byte> bytes, unsigned seed) {
  for (std::size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<std::byte>((i * 2654435761u + seed) >> 13);
}

class QueuePairs : public Wire {
 protected:
  // Writes from end 0 into `to` at end 1.
  Status write(const Slice& from, const Slice& to, std::optional<std::uint32_t> rings = {}) {
    const Write writes[] = {{.from = from.bytes,
                             .local_key = from.local_key,
                             .to = address_of(to.bytes),
                             .remote_key = to.remote_key,
                             .rings = rings,
                             .completes = true,
                             .id = 77}};
    return pairs_[0]->post(writes);
  }
  // The error that end 0 gets for its write.
  std::string failure(double seconds = 20) {
    const auto done = completions(*devices_[0], 1, seconds);
    if (done.empty()) return "";
    EXPECT_NE(done[0].status, IBV_WC_SUCCESS);
    return pairs_[0]->failure_of(done[0]).text;
  }
};

TEST_F(QueuePairs, WriteWithANumberOfEveryLengthBothWays) {
  RegionPool pools[2] = {{*devices_[0], 16 << 20}, {*devices_[1], 16 << 20}};
  for (const std::size_t bytes : {0, 1, 63, 4095, 4096, 4097, 1000003}) {
    for (int end = 0; end < 2; ++end) {
      Slice from = taken(pools[end], bytes + 1), to = taken(pools[1 - end], bytes + 1);
      fill(from.bytes, static_cast<unsigned>(bytes));
      fill(to.bytes, 12345);
      const std::byte after = to.bytes[bytes];
      ASSERT_TRUE(pairs_[1 - end]->post_receives(1, 5).ok());
      const auto number = static_cast<std::uint32_t>(0xfedc0000 + bytes % 65536);
      const Write writes[] = {{.from = from.bytes.first(bytes),
                               .local_key = from.local_key,
                               .to = address_of(to.bytes),
                               .remote_key = to.remote_key,
                               .rings = number,
                               .completes = true,
                               .id = 9}};
      ASSERT_TRUE(pairs_[end]->post(writes).ok());
      const auto arrived = completions(*devices_[1 - end], 1);
      ASSERT_EQ(arrived.size(), 1u);
      EXPECT_EQ(arrived[0].status, IBV_WC_SUCCESS);
      EXPECT_EQ(arrived[0].opcode, IBV_WC_RECV_RDMA_WITH_IMM);
      EXPECT_EQ(ntohl(arrived[0].imm_data), number);
      EXPECT_EQ(arrived[0].byte_len, bytes);
      EXPECT_EQ(arrived[0].wr_id, 5u);
      EXPECT_EQ(arrived[0].qp_num, pairs_[1 - end]->number());
      EXPECT_EQ(std::memcmp(to.bytes.data(), from.bytes.data(), bytes), 0) << bytes;
      EXPECT_EQ(to.bytes[bytes], after);
      const auto sent = completions(*devices_[end], 1);
      ASSERT_EQ(sent.size(), 1u);
      EXPECT_EQ(sent[0].status, IBV_WC_SUCCESS);
      EXPECT_EQ(sent[0].wr_id, 9u);
      pools[end].give_back(from);
      pools[1 - end].give_back(to);
    }
  }
}

// Otherwise the guest has no real wire, and breaking it would have no effect.
TEST_F(QueuePairs, CrossTheWire) {
  const auto packets = [] {
    return topology::read_number("/sys/class/net/veth1/statistics/rx_packets").value_or(0);
  };
  RegionPool here(*devices_[0], 4 << 20), there(*devices_[1], 4 << 20);
  const auto before = packets();
  ASSERT_TRUE(write(taken(here, 1 << 20), taken(there, 1 << 20)).ok());
  EXPECT_EQ(completions(*devices_[0], 1).size(), 1u);
  EXPECT_GE(packets() - before, (1 << 20) / 4096);
}

TEST_F(QueuePairs, ABodyAndAnInlinedHeaderGoByOnePost) {
  RegionPool here(*devices_[0], 4 << 20), there(*devices_[1], 4 << 20);
  const Slice body = taken(here, 100000), room = taken(there, 100000), ring = taken(there, 64);
  fill(body.bytes, 3);
  std::byte header[QueuePair::kMaxInlined];
  fill(header, 4);
  ASSERT_TRUE(pairs_[1]->post_receives(1).ok());
  const Write writes[] = {{.from = body.bytes,
                           .local_key = body.local_key,
                           .to = address_of(room.bytes),
                           .remote_key = room.remote_key},
                          {.from = header,
                           .to = address_of(ring.bytes),
                           .remote_key = ring.remote_key,
                           .rings = 1,
                           .inlined = true,
                           .completes = true}};
  ASSERT_TRUE(pairs_[0]->post(writes).ok());
  std::memset(header, 0, sizeof(header));  // it has been copied
  const auto arrived = completions(*devices_[1], 1);
  ASSERT_EQ(arrived.size(), 1u);
  EXPECT_EQ(std::memcmp(room.bytes.data(), body.bytes.data(), body.bytes.size()), 0);
  fill(header, 4);
  EXPECT_EQ(std::memcmp(ring.bytes.data(), header, sizeof(header)), 0);
  EXPECT_EQ(completions(*devices_[0], 1).size(), 1u);  // only of the second write
  EXPECT_EQ(completions(*devices_[0], 1, 0.1).size(), 0u);
}

TEST_F(QueuePairs, WhoSleepsIsWokenByACompletion) {
  RegionPool here(*devices_[0], 4 << 20), there(*devices_[1], 4 << 20);
  for (int turn = 0; turn < 3; ++turn) {
    ASSERT_TRUE(pairs_[1]->post_receives(1).ok());
    ASSERT_TRUE(devices_[1]->arm().ok());
    pollfd watched{devices_[1]->completion_fd(), POLLIN, 0};
    EXPECT_EQ(::poll(&watched, 1, 0), 0);
    ASSERT_TRUE(write(taken(here, 64), taken(there, 64), 1).ok());
    EXPECT_EQ(::poll(&watched, 1, 20000), 1);
    EXPECT_EQ(completions(*devices_[1], 1).size(), 1u);
    EXPECT_EQ(completions(*devices_[0], 1).size(), 1u);
  }
}

TEST_F(QueuePairs, AKeyThatIsNotThePeersIsAFaultThatNamesBothEnds) {
  RegionPool here(*devices_[0], 4 << 20), there(*devices_[1], 4 << 20);
  Slice to = taken(there, 4096);
  to.remote_key ^= 0x5a00;
  ASSERT_TRUE(write(taken(here, 4096), to).ok());
  const std::string text = failure();
  EXPECT_THAT(text, HasSubstr("RDMA port rxe0:1 (10.77.0.1), queue pair"));
  EXPECT_THAT(text, HasSubstr(" to 10.77.0.2, queue pair "));
  EXPECT_THAT(text, HasSubstr("remote access error (status 10"));
  EXPECT_THAT(text, HasSubstr("see the peer's log"));
  // The queue pair carries nothing any more.
  if (write(taken(here, 64), taken(there, 64)).ok()) {
    EXPECT_NE(failure(), "");
  }
}

TEST_F(QueuePairs, MemoryThatIsNoLongerRegisteredIsOutOfReach) {
  RegionPool here(*devices_[0], 4 << 20);
  std::vector<std::byte> room(8192);
  Slice to{room};
  {
    auto region = Region::of(*devices_[1], room, Ordering::kRelaxed);
    ASSERT_TRUE(region.ok()) << region.error().text;
    to.remote_key = region->remote_key();
    ASSERT_TRUE(write(taken(here, 8192), to).ok());
    const auto done = completions(*devices_[0], 1);
    ASSERT_EQ(done.size(), 1u);
    EXPECT_EQ(done[0].status, IBV_WC_SUCCESS);
  }
  ASSERT_TRUE(write(taken(here, 8192), to).ok());
  EXPECT_NE(failure(), "");
}

TEST_F(QueuePairs, APeerWhosePairIsGoneIsReportedAfterTheRetries) {
  RegionPool here(*devices_[0], 4 << 20), there(*devices_[1], 4 << 20);
  const Slice to = taken(there, 64);
  pairs_[1].reset();
  ASSERT_TRUE(write(taken(here, 64), to).ok());
  EXPECT_THAT(failure(), HasSubstr("NCCL_IB_RETRY_CNT"));
}

TEST_F(QueuePairs, OfPortsOfOtherKindsDoNotConnect) {
  const auto pair = make_pair_of(*devices_[0]);
  const Endpoint infiniband{.ethernet = false, .lid = 3, .queue_pair = 4, .mtu = 4096};
  const auto refused = pair->connect(infiniband);
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().text, HasSubstr("the other RoCE"));
}

TEST_F(QueuePairs, ATimeoutThatTheDeviceRefusesIsNamed) {
  Options options = quick_to_fail();
  options.timeout = 40;  // beyond the limit of from_environment()
  const auto device = open_port(devices_[0]->port(), options);
  const auto pair = make_pair_of(*device);
  const auto refused = pair->connect(pairs_[1]->endpoint());
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().text, HasSubstr("rxe0:1"));
  EXPECT_THAT(refused.error().text, HasSubstr("NCCL_IB_TIMEOUT=40"));
}

}  // namespace
}  // namespace rondo::verbs
