// SPDX-License-Identifier: Apache-2.0
// Programs that close descriptors of Rondo, and sandboxes that refuse it system calls: a rank gets
// an error or goes on, and its process ends.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "tests/support/engine_rank.h"
#include "tests/support/in_child.h"
#include "tests/support/processes.h"
#include "tests/support/refused_call.h"

namespace rondo::test {
namespace {

std::string sum_of_two(Communicators& comms) {
  std::string wrong;
  run_ranks(comms, [&](Communicator& comm) {
    int mine = 1, sum = 0;
    Call call;
    call.record = {1, Collective::kAllReduce, DataType::kInt32, RedOp::kSum, 0, -1};
    call.send = &mine;
    call.receive = &sum;
    const Status done = comm.run({&call, 1});
    if (!done.ok() && comm.rank() == 0) wrong = done.error().text;
    if (done.ok() && sum != 2 && comm.rank() == 0) wrong = "the sum is wrong";
  });
  return wrong;
}

// Runs in a child that ends as programs do, by exit(). -1: it did not end within five minutes.
int status_of_program(const std::function<int()>& body) {
  const pid_t child = fork();
  if (child == 0) {
    signal(SIGALRM, SIG_DFL);
    alarm(300);
    exit_of_fork(body());
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(ClosedDescriptors, CallsGoOnAndTheProcessEnds) {
  for (const bool destroys : {false, true})
    EXPECT_EQ(status_of_program([&] {
                auto comms = std::make_unique<Communicators>(make_communicators(2));
                if (!sum_of_two(*comms).empty()) return 1;
                for (int fd = 3; fd < 1024; ++fd) close(fd);  // as closefrom(3)
                if (!sum_of_two(*comms).empty()) return 2;
                if (destroys) comms.reset();
                if (!destroys) (void)comms.release();  // the program leaves them
                return 0;
              }),
              0)
        << "destroys " << destroys;
}

TEST(RefusedCalls, ACommunicatorWithoutAcceptIsAnErrorOrWorksAndEnds) {
  const std::string outcome = in_child([]() -> std::string {
    auto comms = std::make_unique<Communicators>(make_communicators(2));
    if (!refuse_calls({SYS_accept4})) return kNoFilters;
    const std::string wrong = sum_of_two(*comms);
    comms.reset();  // stops the threads that serve visitors
    return wrong;
  });
  if (outcome == kNoFilters) GTEST_SKIP() << outcome;
  EXPECT_EQ(outcome, "");
}

}  // namespace
}  // namespace rondo::test
