// SPDX-License-Identifier: Apache-2.0
// Exceptions: what a guard returns, what a thread reports, and that the turn of a call that threw
// is released.
#include "base/guard.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <new>
#include <stdexcept>

#include "base/thread.h"
#include "collectives/communicator/call_order.h"

namespace rondo {
namespace {

template <class Exception>
Error caught(const Exception& exception) {
  const Status result = guarded("AllReduce", [&]() -> Status { throw exception; });
  return result.ok() ? Error{} : result.error();
}

TEST(Guard, TurnsWhatIsThrownIntoAnErrorThatNamesTheWork) {
  EXPECT_EQ(caught(std::bad_alloc()).code, StatusCode::kSystemError);
  EXPECT_NE(caught(std::bad_alloc()).text.find("AllReduce : out of memory"), std::string::npos);
  const Error refused =
      caught(std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again)));
  EXPECT_EQ(refused.code, StatusCode::kSystemError);
  EXPECT_NE(refused.text.find("temporarily unavailable"), std::string::npos) << refused.text;
  EXPECT_EQ(caught(std::out_of_range("at 7")).code, StatusCode::kInternalError);
  EXPECT_EQ(caught(std::out_of_range("at 7")).text, "AllReduce : at 7");
  EXPECT_EQ(caught(42).code, StatusCode::kInternalError);
}

TEST(Guard, LetsACancelledThreadEnd) {
  pthread_t thread;
  ASSERT_EQ(pthread_create(
                &thread, nullptr,
                [](void*) -> void* {
                  (void)guarded("a sleep", [] { return pause(), ok_status(); }).ok();
                  return nullptr;
                },
                nullptr),
            0);
  pthread_cancel(thread);
  void* how = nullptr;
  pthread_join(thread, &how);
  EXPECT_EQ(how, PTHREAD_CANCELED);
}

TEST(Thread, GivesWhatItsBodyThrowsToItsOwnerAndEnds) {
  std::promise<Error> reported;
  auto thread = Thread::start(
      "a test", []() -> void { throw std::bad_alloc(); },
      [&](const Error& error) {
        reported.set_value(error);
        throw std::runtime_error("and once more");
      });
  ASSERT_TRUE(thread.ok());
  thread->join();
  EXPECT_EQ(reported.get_future().get().code, StatusCode::kSystemError);
}

TEST(Turn, OfACallThatNeverRanIsGivenUpInOrder) {
  CallOrder order;
  std::atomic<int> ran{0};
  Turn first(order);
  auto last = std::async(std::launch::async, [&, second = Turn(order)]() mutable {
    { const Turn dropped = std::move(second); }  // waits for the first
    Turn third(order);
    third.wait();
    return ran.load();
  });
  first.wait();
  ran = 1;
  first.finish();
  EXPECT_EQ(last.get(), 1);
  EXPECT_TRUE(order.idle());
}

}  // namespace
}  // namespace rondo
