// SPDX-License-Identifier: Apache-2.0
// Puts on a link of two rails, one of which this test loses: the rail and the order of each write,
// and the writes that are repeated.
#include <gmock/gmock.h>

#ifdef RONDO_VERBS

#include "tests/unit/transport/verbs/fake_verbs.h"
#include "transport/verbs/ibverbs/put_side.h"

namespace rondo::verbs {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class Puts : public OnFakeVerbs, public RailOwner {
 protected:
  static constexpr std::uint64_t kMemory = 1 << 20, kWords = 2 << 20;

  void SetUp() override {
    OnFakeVerbs::SetUp();
    adapters_ = open(fake_functions(), 2);
    for (std::size_t i = 0; i < 2; ++i) {
      auto rail = Rail::make(*this, adapters_->at(i), i, 1);
      ASSERT_TRUE(rail.ok());
      rails_.push_back(std::move(rail).value());
      // The peer's ports are in reverse order.
      RailEnd peer = rails_[i]->end(0);
      peer.port = static_cast<std::uint8_t>(1 - i);
      ASSERT_TRUE(rails_[i]->connect(i, peer).ok());
      ASSERT_TRUE(rails_[i]->ack_ready().ok());
      ways_.push_back({rails_[i].get(), 0});
    }
    fake_.posted.clear();
    body_.resize(100);
    key_ = adapters_->register_memory({body_}).value();
    memory_ = side_.learn({.address = kMemory, .bytes = 1000, .keys = {7, 8}});
    words_ = side_.learn({.address = kWords, .bytes = 64, .keys = {17, 18}});
  }
  void TearDown() override {
    rails_.clear();
    if (adapters_) adapters_->deregister_memory(key_);
    adapters_.reset();
  }
  net::Put put_of(std::uint64_t word, std::size_t bytes = 100) {
    return {.body = std::span(body_).first(bytes),
            .key = key_,
            .to = memory_,
            .offset = word,
            .word_in = words_,
            .word_offset = 8,
            .word = word};
  }
  std::uint64_t push(const net::Put& put) {
    return side_.push(put, put.body.empty() ? Adapters::Keys{} : *adapters_->find(key_, body_));
  }
  // Loses the rail at this end. The peer's note reports the loss, and that `puts` puts took effect.
  std::optional<std::string> receive_loss(std::size_t rail, std::uint64_t puts) {
    rails_[rail]->lose("the test has lost it");
    std::erase_if(ways_, [&](const Way& way) { return way.rail == rails_[rail].get(); });
    LossNote note;
    note.lost = 1u << rail;
    note.puts = puts;
    return side_.take_note(note);
  }
  // Writes posted since the last call, as "device:what": b a body, w4 the word 4, n3 the count 3.
  std::vector<std::string> posted() {
    std::vector<std::string> all;
    for (const FakeVerbs::Posted& one : std::exchange(fake_.posted, {})) {
      const bool body = one.to >= kMemory && one.to < kMemory + 1000;
      const bool word = one.to == kWords + 8;
      const std::uint32_t base = body ? 7 : 17;  // key of the peer's port 0
      const bool right_key = (!body && !word) || one.key == base + (one.device == 0 ? 1 : 0);
      all.push_back(fmt::format("{}:{}{}", one.device,
                                body   ? fmt::format("b{}", one.to - kMemory)
                                : word ? fmt::format("w{}", one.value)
                                       : fmt::format("n{}", one.value),
                                right_key ? "" : " by a wrong key"));
    }
    return all;
  }

  std::unique_ptr<Adapters> adapters_;
  std::vector<std::unique_ptr<Rail>> rails_;
  std::vector<Way> ways_;
  std::vector<std::byte> body_;
  net::MemoryKey key_ = 0;
  net::RemoteKey memory_ = 0, words_ = 0;
  PutSide side_;

 private:
  std::optional<std::string> rung(Rail&, std::size_t, Ring) override { return std::nullopt; }
  void sent(Rail&, std::uint16_t) override {}
  void put(Rail&, std::uint16_t) override {}
};

TEST_F(Puts, GoByOneQueuePairEachWithItsWordAndTheirNumberLast) {
  push(put_of(1));
  push(put_of(2, 0));  // a word without a body
  net::Put no_word = put_of(3);
  no_word.word_in.reset();
  push(no_word);
  EXPECT_TRUE(side_.send(ways_));
  EXPECT_THAT(posted(), ElementsAre("0:b1", "0:w1", "0:n1", "0:w2", "0:n2", "0:b3", "0:n3"));
  EXPECT_FALSE(side_.is_done(0));
  side_.put(2);
  EXPECT_TRUE(side_.is_done(1));
  EXPECT_FALSE(side_.is_done(2));
}

// The first put took effect and its word was seen, although no acknowledgement arrived. The peer
// may already reuse that memory, so it must not be written again.
TEST_F(Puts, OfALostRailGoAgainInOrderButForThoseThatThePeerHas) {
  for (std::uint64_t word = 1; word <= 3; ++word) push(put_of(word));
  EXPECT_TRUE(side_.send(ways_));
  (void)posted();
  rails_[0]->lose("the test has lost it");
  push(put_of(4));
  EXPECT_FALSE(side_.send(ways_)) << "before the peer has said what it has";
  EXPECT_FALSE(side_.send(std::span(ways_).subspan(1)));
  EXPECT_EQ(receive_loss(0, 1), std::nullopt);
  EXPECT_TRUE(side_.is_done(0));
  EXPECT_FALSE(side_.is_done(1));
  EXPECT_TRUE(side_.send(ways_));
  EXPECT_THAT(posted(),
              ElementsAre("1:b2", "1:w2", "1:n2", "1:b3", "1:w3", "1:n3", "1:b4", "1:w4", "1:n4"));
  side_.put(4);
  EXPECT_TRUE(side_.is_done(3));
}

TEST_F(Puts, StayWhereTheyAreWhenTheOtherRailIsLost) {
  push(put_of(1));
  EXPECT_TRUE(side_.send(ways_));
  (void)posted();
  EXPECT_EQ(receive_loss(1, 0), std::nullopt);
  EXPECT_FALSE(side_.is_done(0));
  EXPECT_FALSE(side_.send(ways_)) << "nothing goes twice";
  EXPECT_TRUE(posted().empty());
}

TEST_F(Puts, OfAPeerThatSendsWhatCannotBeEndTheLink) {
  push(put_of(1));
  push(put_of(2));
  EXPECT_TRUE(side_.send(ways_));
  side_.put(1);
  EXPECT_THAT(receive_loss(0, 3).value_or(""), HasSubstr("3 puts have taken effect, of 2"));
  EXPECT_THAT(receive_loss(0, 0).value_or(""),
              HasSubstr("0 puts have taken effect, and has taken 1"));
}

TEST_F(Puts, WaitForRoomInTheQueueOfSends) {
  std::uint64_t pushed = 0;
  for (; !side_.full(); ++pushed) push(put_of(pushed + 1));
  EXPECT_EQ(pushed, net::Link::kDepth);
  EXPECT_TRUE(side_.send(ways_));
  EXPECT_EQ(posted().size(), 3 * net::Link::kDepth);
  side_.put(static_cast<std::uint16_t>(pushed));
  for (std::uint64_t more = 0; !side_.full(); ++more) push(put_of(pushed + more + 1));
  EXPECT_TRUE(side_.send(ways_));
  // 256 sends may be posted. The message that the pair is ready is one of them.
  EXPECT_EQ(posted().size(), 3 * ((Adapter::kSends - 1) / 3 - net::Link::kDepth));
}

TEST_F(Puts, OutsideOfThePeersMemoryAreRefused) {
  EXPECT_EQ(side_.check(put_of(900)), std::nullopt);
  EXPECT_THAT(side_.check(put_of(901)).value_or(""), HasSubstr("100 bytes at 901"));
  net::Put odd = put_of(1);
  odd.word_offset = 4;
  EXPECT_THAT(side_.check(odd).value_or(""), HasSubstr("word at 4"));
  odd.word_offset = 64;
  EXPECT_THAT(side_.check(odd).value_or(""), HasSubstr("word at 64"));
  side_.forget(memory_);
  EXPECT_NE(side_.check(put_of(1)), std::nullopt);
}

}  // namespace
}  // namespace rondo::verbs

#endif
