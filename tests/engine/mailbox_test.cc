// Messages with tags where their counters end, and where a peer says what cannot be.
#include "collectives/mailbox.h"

#include <gtest/gtest.h>

#include "tests/support/mailbox_seam.h"
#include "tests/support/ranks.h"

namespace rondo::test {

namespace {

constexpr std::size_t kEager = 64;
const auto kPatience = std::chrono::seconds(20);

using Bytes = std::vector<std::byte>;

struct TwoMailboxes {
  TwoMailboxes() : comms(make_communicators(2)) {
    run_ranks(comms, [this](Communicator& comm) {
      auto made = Mailbox::open(comms[comm.rank()], kEager);
      ASSERT_TRUE(made.ok()) << made.error().text;
      box[comm.rank()] = *made;
    });
  }
  static bool finish(const Result<Mailbox::Request>& request) {
    return request.ok() && (*request)->wait_until(std::chrono::steady_clock::now() + kPatience);
  }
  Communicators comms;
  std::shared_ptr<Mailbox> box[2];
};

TEST(Mailbox, NumbersOffersRoundTheEndOfTheirCounter) {
  TwoMailboxes two;
  MailboxSeam::set_last_offer(*two.box[0], UINT32_MAX - 2);
  constexpr int kMessages = 6;
  std::vector<Bytes> sent;
  std::vector<Result<Mailbox::Request>> sending;
  for (int i = 0; i < kMessages; ++i) sent.emplace_back(1000, static_cast<std::byte>(i + 1));
  for (int i = 0; i < kMessages; ++i)
    sending.push_back(two.box[0]->send({.peer = 1, .tag = i}, sent[i].data(), sent[i].size()));
  // The offers are there before anybody asks for them.
  for (int i = 0; i < 200; ++i)
    for (const auto& box : two.box) box->help();
  for (int i = 0; i < kMessages; ++i) {
    Bytes got(1000);
    const auto receiving = two.box[1]->receive({.peer = 0, .tag = i}, got.data(), got.size());
    ASSERT_TRUE(TwoMailboxes::finish(receiving)) << "offer " << i;
    EXPECT_TRUE((*receiving)->result().ok());
    EXPECT_EQ(got, sent[i]) << "offer " << i;
    EXPECT_TRUE(TwoMailboxes::finish(sending[i]));
  }
}

TEST(Mailbox, TakesNoMoreUnaskedThanItsPeerMaySend) {
  TwoMailboxes two;
  MailboxSeam::set_eager_bytes_of_peer(*two.box[1], 0, 10);
  const Bytes much(kEager, std::byte{1});
  ASSERT_TRUE(TwoMailboxes::finish(two.box[0]->send({.peer = 1}, much.data(), much.size())));
  Bytes got(kEager);
  const auto receiving = two.box[1]->receive({.peer = 0}, got.data(), got.size());
  if (receiving.ok()) {
    ASSERT_TRUE(TwoMailboxes::finish(receiving));
  }
  const Error& error = receiving.ok() ? (*receiving)->result().error() : receiving.error();
  EXPECT_EQ(error.status, Status::kRemoteError);
  EXPECT_NE(error.text.find("rank 0 (pid"), std::string::npos) << error.text;
  EXPECT_NE(error.text.find("64 bytes unasked"), std::string::npos) << error.text;
}

}  // namespace
}  // namespace rondo::test
