// SPDX-License-Identifier: Apache-2.0
// Messages into memory whose owner sees writes only after a read by the adapter: each adapter reads
// there before a message counts as arrived.
#include <gmock/gmock.h>

#include <atomic>

#include "tests/rdma/ends.h"
#include "tests/unit/transport/net/networks.h"
#include "transport/verbs/ibverbs/verbs_network.h"

namespace rondo::test {
namespace {

using PostSend = int (*)(ibv_qp*, ibv_send_wr*, ibv_send_wr**);
using CreatePair = ibv_qp* (*)(ibv_pd*, ibv_qp_init_attr*);

// The device's real functions, and the fate of reads.
PostSend real_post_send = nullptr;
CreatePair real_create_qp = nullptr;
std::atomic<int> reads_posted{0};
std::atomic<bool> reads_held{false};
ibv_qp* held_pair = nullptr;
ibv_send_wr held_read{};
ibv_sge held_piece{};

int post_and_count(ibv_qp* pair, ibv_send_wr* request, ibv_send_wr** refused) {
  if (request->opcode != IBV_WR_RDMA_READ) return real_post_send(pair, request, refused);
  ++reads_posted;
  if (!reads_held) return real_post_send(pair, request, refused);
  held_pair = pair;
  held_read = *request;
  held_piece = *request->sg_list;
  held_read.sg_list = &held_piece;
  return 0;
}

ibv_qp* create_and_watch(ibv_pd* domain, ibv_qp_init_attr* attributes) {
  ibv_qp* const pair = real_create_qp(domain, attributes);
  if (pair == nullptr || pair->context->ops.post_send == post_and_count) return pair;
  real_post_send = pair->context->ops.post_send;
  pair->context->ops.post_send = post_and_count;
  return pair;
}

const NetworkKind kWatched{"Watched", verbs::VerbsNetwork::kName,
                           [](net::PortOptions options) -> std::unique_ptr<net::Network> {
                             static const verbs::Ibverbs table = [] {
                               verbs::Ibverbs made =
                                   verbs::Ibverbs::load_from("libibverbs.so.1").value();
                               real_create_qp = made.create_qp;
                               made.create_qp = create_and_watch;
                               return made;
                             }();
                             verbs::NetworkOptions wanted{std::move(options)};
                             wanted.verbs = verbs::quick_to_fail();
                             wanted.verbs.hca = wanted.rank % 2 == 0 ? "=rxe0" : "=rxe1";
                             wanted.verbs.functions = &table;
                             return verbs::VerbsNetwork::open(std::move(wanted)).value();
                           }};

class ReadBackMessages : public testing::Test {
 protected:
  static constexpr std::size_t kBytes = 70'000;

  void SetUp() override {
    if (verbs::guest_ports().size() < 2) GTEST_SKIP() << "no two soft-RoCE devices";
    reads_held = false;
    reads_posted = 0;
    link_ = std::make_unique<LinkPair>(kWatched);
    ASSERT_TRUE(link_->connected);
    body_ = std::make_unique<Registered>(*link_->near_network, pattern(kBytes, 1));
  }
  void TearDown() override {
    if (!link_) return;
    link_->near.reset();
    link_->far.reset();
    if (key_ != 0) link_->far_network->deregister_memory(key_);
    body_.reset();
  }
  void take_room(bool read_back) {
    key_ = link_->far_network->register_memory({.bytes = room_, .read_back = read_back}).value();
  }
  std::optional<net::Request> offer_and_send() {
    const auto got = link_->far->irecv(record_, room_, key_);
    EXPECT_TRUE(link_->near->isend({}, body_->bytes, body_->key));
    return got;
  }

  std::unique_ptr<LinkPair> link_;
  std::unique_ptr<Registered> body_;
  Bytes room_ = Bytes(kBytes);
  net::MemoryKey key_ = 0;
  CallRecord record_;
};

TEST_F(ReadBackMessages, CostAReadOnlyWhereTheMemoryAsksForIt) {
  for (const bool read_back : {false, true}) {
    take_room(read_back);
    for (int round = 0; round < 5; ++round) {
      const auto got = offer_and_send();
      ASSERT_TRUE(got);
      ASSERT_TRUE(link_->until([&] { return link_->far->test(*got).done; }));
      ASSERT_EQ(room_, body_->bytes);
      std::ranges::fill(room_, std::byte{0});
    }
    EXPECT_EQ(reads_posted, read_back ? 5 : 0);
    if (!read_back) link_->far_network->deregister_memory(key_);
  }
}

TEST_F(ReadBackMessages, AreThereOnceTheirReadIs) {
  take_room(true);
  reads_held = true;
  const auto got = offer_and_send();
  ASSERT_TRUE(got);
  ASSERT_TRUE(link_->until([&] { return reads_posted == 1; }));
  EXPECT_EQ(room_, body_->bytes) << "it is read before it has come";
  const auto later = std::chrono::steady_clock::now() + std::chrono::milliseconds(300);
  while (std::chrono::steady_clock::now() < later) link_->turn();
  EXPECT_FALSE(link_->far->test(*got).done) << "it counts as there before its read";
  link_->near->close();  // messages sent before still arrive
  for (int i = 0; i < 1000; ++i) link_->turn_far();
  EXPECT_FALSE(link_->far->test(*got).done);
  ibv_send_wr* refused = nullptr;
  ASSERT_EQ(real_post_send(held_pair, &held_read, &refused), 0);
  EXPECT_TRUE(drive([&] { link_->turn_far(); }, [&] { return link_->far->test(*got).done; }));
  EXPECT_EQ(link_->far->test(*got).bytes, kBytes);
}

}  // namespace
}  // namespace rondo::test
