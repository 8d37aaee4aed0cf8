// SPDX-License-Identifier: Apache-2.0
// Puts over a link of two rails, one or both of which are lost meanwhile. No put is lost, none
// arrives before its word, and none is written again after its word has been seen.
#include <gmock/gmock.h>

#include "base/atomics.h"
#include "tests/rdma/ends.h"
#include "tests/rdma/wires.h"
#include "tests/unit/transport/net/networks.h"

namespace rondo::test {
namespace {

const NetworkKind* kind_of_two_rails() {
  for (const NetworkKind& kind : network_kinds())
    if (std::string(kind.name) == "TwoRails") return &kind;
  return nullptr;
}

// Puts into slots that their owner reads, and marks as empty.
class PutsThroughLosses : public testing::Test {
 protected:
  static constexpr std::uint64_t kSlots = 8, kBytes = 200'000;

  void SetUp() override {
    if (kind_of_two_rails() == nullptr) GTEST_SKIP() << "no two wires: guest.sh --wires 2";
    link_ = std::make_unique<LinkPair>(*kind_of_two_rails());
    ASSERT_TRUE(link_->connected);
    net::Network& far = *link_->far_network;
    bodies_ = std::make_unique<Registered>(*link_->near_network, Bytes(kSlots * kBytes));
    slots_ = std::make_unique<Registered>(far, Bytes(kSlots * kBytes, kEmpty));
    const auto word = std::as_writable_bytes(std::span(&word_, 1));
    word_key_ = far.register_memory({.bytes = word, .ordered = true}).value();
    to_ = link_->near->unpack_key(far.pack_key(slots_->key).value()).value();
    word_in_ = link_->near->unpack_key(far.pack_key(word_key_).value()).value();
  }
  void TearDown() override {
    if (!link_) return;
    link_->near.reset();
    link_->far.reset();
    link_->far_network->deregister_memory(word_key_);
    bodies_.reset();
    slots_.reset();
  }
  std::span<std::byte> slot(Registered& of, std::uint64_t number) const {
    return std::span(of.bytes).subspan(number % kSlots * kBytes, kBytes);
  }
  bool is_empty(std::uint64_t number) const {
    return std::ranges::all_of(slot(*slots_, number), [](std::byte b) { return b == kEmpty; });
  }
  void put() {
    for (; asked_ < taken_ + kSlots; ++asked_) {
      ASSERT_TRUE(is_empty(asked_)) << "put " << asked_ << ": what was taken is written again";
      std::ranges::copy(pattern(kBytes, asked_), slot(*bodies_, asked_).begin());
      ASSERT_TRUE(link_->near->iput({.body = slot(*bodies_, asked_),
                                     .key = bodies_->key,
                                     .to = to_,
                                     .offset = asked_ % kSlots * kBytes,
                                     .word_in = word_in_,
                                     .word = asked_ + 1}));
    }
  }
  // Takes only puts that the sender knows to be complete, since it can still write the others
  // again.
  void take() {
    for (const std::uint64_t come = HostAtomics::load_acquire(word_);
         taken_ < come && link_->near->test({taken_, true, true}).done; ++taken_) {
      const auto at = slot(*slots_, taken_);
      ASSERT_TRUE(std::ranges::equal(at, pattern(kBytes, taken_))) << "put " << taken_;
      std::ranges::fill(at, kEmpty);
    }
  }
  bool over() const { return net::is_over(link_->near->state()); }
  void until_taken(std::uint64_t count) {
    ASSERT_TRUE(drive(
        [&] {
          if (!over()) put();
          link_->turn();
          take();
        },
        [&] { return taken_ >= count || over() || HasFatalFailure(); }));
  }

  static constexpr std::byte kEmpty{0xee};
  std::unique_ptr<LinkPair> link_;
  std::unique_ptr<Registered> bodies_, slots_;
  std::uint64_t word_ = 0;
  net::MemoryKey word_key_ = 0;
  net::RemoteKey to_ = 0, word_in_ = 0;
  std::uint64_t asked_ = 0, taken_ = 0;
};

TEST_F(PutsThroughLosses, AWireThatGoesDownCostsNone) {
  until_taken(20);
  const verbs::WireDown cut(0);
  ASSERT_TRUE(cut.is_cut());
  until_taken(60);
  EXPECT_FALSE(over()) << link_->near->error().text;
  EXPECT_GE(taken_, 60u);
}

TEST_F(PutsThroughLosses, AWireThatLosesEverythingCostsNone) {
  until_taken(20);
  const verbs::WireSilent cut(0);
  ASSERT_TRUE(cut.is_cut());
  until_taken(60);
  EXPECT_FALSE(over()) << link_->near->error().text;
  EXPECT_GE(taken_, 60u);
}

TEST_F(PutsThroughLosses, WithBothWiresGoneTheLinkEndsAndNoWordIsWithoutItsBytes) {
  until_taken(20);
  const verbs::WireSilent first(0);
  const verbs::WireSilent second(1);
  ASSERT_TRUE(first.is_cut() && second.is_cut());
  until_taken(10'000);
  ASSERT_TRUE(over());
  EXPECT_EQ(link_->near->error().code, StatusCode::kRemoteError);
  EXPECT_THAT(link_->near->error().text, testing::HasSubstr("rank 1"));
  EXPECT_LE(HostAtomics::load_acquire(word_), asked_);
}

}  // namespace
}  // namespace rondo::test
