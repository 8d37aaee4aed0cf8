// SPDX-License-Identifier: Apache-2.0
// Several errors in one group: its end returns the first, in call order, whether the call, the
// creation of a communicator or the execution finds it.
#include <gtest/gtest.h>

#include "api/rondo.h"
#include "tests/abi/ok.h"
#include "tests/support/threads.h"

namespace {

TEST(GroupErrors, TheFirstOneThatACallReturnedIsReturnedAgainAtTheEnd) {
  ncclComm_t comm = nullptr, revoked = nullptr;
  OK(ncclCommInitAll(&comm, 1, nullptr));
  OK(ncclCommInitAll(&revoked, 1, nullptr));
  OK(ncclCommRevoke(revoked, NCCL_REVOKE_DEFAULT));
  int in = 3, out = 0;
  const auto wrong_type = [&] {
    return ncclAllReduce(&in, &out, 1, static_cast<ncclDataType_t>(99), ncclSum, comm, nullptr);
  };
  const auto wrong_comm = [&] {
    return ncclAllReduce(&in, &out, 1, ncclInt, ncclSum, revoked, nullptr);
  };
  const auto wrong_split = [&] {
    ncclComm_t child = nullptr;
    return ncclCommSplit(comm, -7, 0, &child, nullptr);
  };
  const auto right = [&] { return ncclAllReduce(&in, &out, 1, ncclInt, ncclSum, comm, nullptr); };

  OK(ncclGroupStart());
  OK(right());
  EXPECT_EQ(wrong_type(), ncclInvalidArgument);
  EXPECT_EQ(wrong_comm(), ncclInvalidUsage);
  OK(right());
  EXPECT_EQ(ncclGroupEnd(), ncclInvalidArgument);

  OK(ncclGroupStart());
  EXPECT_EQ(wrong_comm(), ncclInvalidUsage);
  OK(ncclGroupStart());
  EXPECT_EQ(wrong_type(), ncclInvalidArgument);
  OK(ncclGroupEnd());  // the inner group: nothing has run yet
  EXPECT_EQ(wrong_split(), ncclInvalidArgument);
  EXPECT_EQ(ncclGroupEnd(), ncclInvalidUsage);

  EXPECT_EQ(out, 0) << "a group with an error ran a call";
  OK(ncclGroupStart());
  OK(right());
  OK(ncclGroupEnd());
  EXPECT_EQ(out, 3);
  OK(ncclCommDestroy(comm));
  OK(ncclCommDestroy(revoked));
}

// Two communicators whose rank 0 has different faults.
class GroupOfFaulted : public testing::Test {
 protected:
  void SetUp() override {
    OK(ncclCommInitAll(left_, 2, nullptr));
    OK(ncclCommInitAll(mismatched_, 2, nullptr));
    OK(ncclCommAbort(left_[1]));
    rondo::test::on_threads(2, [this](int r) {
      int in[2] = {}, out[2] = {};
      const std::size_t count = r == 0 ? 1 : 2;
      EXPECT_EQ(ncclAllReduce(in, out, count, ncclInt, ncclSum, mismatched_[r], nullptr),
                ncclInvalidUsage);
    });
  }
  void TearDown() override {
    for (ncclComm_t comm : {left_[0], mismatched_[0], mismatched_[1]}) OK(ncclCommAbort(comm));
  }
  // Ends a group that calls `make` for both communicators, in each order, and checks the result.
  template <class Make>
  void expect_the_first(const Make& make) {
    for (const bool left_first : {true, false}) {
      OK(ncclGroupStart());
      OK(make(left_first ? left_[0] : mismatched_[0]));
      OK(make(left_first ? mismatched_[0] : left_[0]));
      EXPECT_EQ(ncclGroupEnd(), left_first ? ncclRemoteError : ncclInvalidUsage)
          << ncclGetLastError(nullptr);
    }
  }

  ncclComm_t left_[2] = {};        // rank 0: ncclRemoteError
  ncclComm_t mismatched_[2] = {};  // ncclInvalidUsage
};

TEST_F(GroupOfFaulted, ReturnsTheErrorOfTheFirstCall) {
  int in = 1, out = 0;
  expect_the_first([&](ncclComm_t comm) {
    return ncclAllReduce(&in, &out, 1, ncclInt, ncclSum, comm, nullptr);
  });
}

TEST_F(GroupOfFaulted, ReturnsTheErrorOfTheFirstCommunicatorThatCannotBeMade) {
  ncclComm_t children[2] = {};
  int made = 0;
  expect_the_first(
      [&](ncclComm_t comm) { return ncclCommSplit(comm, 0, 0, &children[made++ % 2], nullptr); });
}

}  // namespace
