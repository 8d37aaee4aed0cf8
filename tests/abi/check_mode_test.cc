// SPDX-License-Identifier: Apache-2.0
// NCCL_CHECK_MODE: a buffer that is not memory of this process is refused before the call runs.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <functional>
#include <string>
#include <utility>

#include "api/rondo.h"
#include "tests/abi/ok.h"
#include "tests/support/nccl_rank.h"

namespace {

constexpr std::size_t kPage = 4096;

// One page of memory, followed by an unmapped page.
class LastPage {
 public:
  LastPage()
      : at_(static_cast<char*>(
            mmap(nullptr, 2 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {
    mprotect(at_ + kPage, kPage, PROT_NONE);
  }
  ~LastPage() { munmap(at_, 2 * kPage); }
  char* page() const { return at_; }
  void make_read_only() { mprotect(at_, kPage, PROT_READ); }

 private:
  char* at_;
};

void with_checked_ranks(const char* variable, const char* value,
                        const std::function<void(ncclComm_t, int)>& body) {
  const rondo::test::WithEnvironment checked(variable, value);
  rondo::test::with_ranks(2, body);
}

void expect_refused(ncclResult_t result, const std::string& text) {
  EXPECT_EQ(result, ncclInvalidArgument);
  EXPECT_NE(std::string(ncclGetLastError(nullptr)).find(text), std::string::npos)
      << ncclGetLastError(nullptr);
}

TEST(CheckMode, RefusesPointersAndCountsThatLeaveMemory) {
  for (const auto& [variable, value] :
       {std::pair{"NCCL_CHECK_MODE", "DEBUG_LOCAL"}, {"NCCL_CHECK_POINTERS", "1"}}) {
    with_checked_ranks(variable, value, [](ncclComm_t comm, int) {
      LastPage send, receive, constant;
      constant.make_read_only();
      char* nowhere = send.page() + kPage;
      const auto sum = [&](const void* from, void* to, std::size_t bytes) {
        return ncclAllReduce(from, to, bytes, ncclUint8, ncclSum, comm, nullptr);
      };
      expect_refused(sum(nowhere, receive.page(), 8), "AllReduce : sendbuff 0x");
      expect_refused(sum(send.page(), nowhere, 8), " is not a valid pointer");
      expect_refused(sum(send.page(), receive.page(), kPage + 1),
                     "is not a valid pointer to 4097 bytes");
      expect_refused(sum(send.page(), constant.page(), 8), "AllReduce : recvbuff 0x");
      expect_refused(
          ncclAllGather(send.page(), receive.page(), kPage / 2 + 1, ncclUint8, comm, nullptr),
          "AllGather : recvbuff 0x");
      expect_refused(ncclSend(nowhere, 1, ncclUint8, 0, comm, nullptr), "Send : sendbuff 0x");
      // None of these was a call. A valid call still runs, with the right result.
      std::fill_n(send.page(), kPage, char{3});
      OK(sum(send.page(), receive.page(), kPage));
      OK(sum(constant.page(), receive.page(), kPage));
      EXPECT_EQ(receive.page()[0], 0);
      OK(sum(send.page(), send.page(), kPage));
      EXPECT_EQ(send.page()[0], 6);
      EXPECT_EQ(send.page()[kPage - 1], 6);
    });
  }
}

TEST(CheckMode, ZeroElementsNeedNoMemory) {
  with_checked_ranks("NCCL_CHECK_MODE", "debug_global", [](ncclComm_t comm, int) {
    OK(ncclAllReduce(nullptr, nullptr, 0, ncclFloat, ncclSum, comm, nullptr));
  });
}

}  // namespace
