// SPDX-License-Identifier: Apache-2.0
// Another user of the machine at the status port of a job: it learns nothing and changes nothing,
// by whatever address of the host it comes, and it cannot keep a communicator from ending.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/support/in_child.h"
#include "tests/support/joined_namespaces.h"
#include "tests/support/processes.h"
#include "tests/support/status_job.h"

namespace rondo::test {
namespace {

constexpr uid_t kNobody = 65534;
constexpr unsigned char kLoopback[] = {127, 0, 0, 1}, kOfThisHost[] = {10, 7, 0, 1};

bool becomes_nobody() { return setresuid(kNobody, kNobody, kNobody) == 0; }

net::Socket connect_to(std::uint16_t port, const net::SocketAddress& from) {
  net::Socket socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const auto to = net::SocketAddress::v4(kLoopback, port);
  if (bind(socket.get(), from.raw(), from.length()) != 0 ||
      connect(socket.get(), to.raw(), to.length()) != 0)
    socket.reset();
  return socket;
}

// What the service answers until it closes the connection.
std::string converse(std::uint16_t port, const net::SocketAddress& from, const std::string& lines) {
  const net::Socket socket = connect_to(port, from);
  if (!socket) return "not connected";
  (void)send(socket.get(), lines.data(), lines.size(), MSG_NOSIGNAL);
  std::string answer;
  for (char buffer[4096];;) {
    const ssize_t count = recv(socket.get(), buffer, sizeof(buffer), 0);
    if (count <= 0) return answer;
    answer.append(buffer, static_cast<std::size_t>(count));
  }
}

struct StatusStrangers : testing::Test {
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  }
};

TEST_F(StatusStrangers, GetNothingByAnyAddressOfTheHost) {
  const std::string found = in_child([]() -> std::string {
    const JoinedNamespaces hosts;
    if (!hosts) return "no namespaces";
    const StatusJob status;
    RankProcesses ranks(2, status.job(), [](EngineRank& seat) {
      seat.mark(1);
      seat.wait_flag(1);
    });
    if (!ranks.wait_stage(1)) return "no ranks";
    std::string wrong;
    for (const auto& from :
         {net::SocketAddress::v4(kLoopback, 0), net::SocketAddress::v4(kOfThisHost, 0)}) {
      for (const char* word : {"STATUS", "DIAGNOSTICS", "VIEW JOB", "CONTROL PROFILER_MASK all"}) {
        const std::string lines = fmt::format("{}\n", word);
        const std::string theirs = in_child([&]() -> std::string {
          return becomes_nobody() ? converse(status.port, from, lines) : "no other user";
        });
        if (theirs != "") wrong += fmt::format("{} from {}: {}\n", word, from.text(), theirs);
        std::string own;  // the service drops a client that it is too busy to serve
        wait_until([&] { return !(own = converse(status.port, from, lines)).empty(); });
        if (own.empty()) wrong += fmt::format("{} from {}: no answer\n", word, from.text());
      }
    }
    ranks.board().flag.store(1);
    if (!ranks.wait_exits()) wrong += "the ranks do not end\n";
    return wrong;
  });
  if (found == "no namespaces") GTEST_SKIP() << found;
  EXPECT_EQ(found, "");
}

// Processes of another user that connect and reset without end.
class Flood {
 public:
  Flood(std::uint16_t port, int processes) {
    for (int i = 0; i < processes; ++i) {
      const pid_t child = fork();
      if (child != 0) {
        pids_.push_back(child);
        continue;
      }
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      alarm(600);
      if (!becomes_nobody()) _exit(1);
      for (const auto from = net::SocketAddress::v4(kLoopback, 0);;) {
        const net::Socket socket = connect_to(port, from);
        const linger reset{1, 0};
        if (socket) setsockopt(socket.get(), SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
      }
    }
  }
  ~Flood() {
    for (const pid_t pid : pids_) kill(pid, SIGKILL);
    for (const pid_t pid : pids_) waitpid(pid, nullptr, 0);
  }
  bool is_running() const {
    return std::all_of(pids_.begin(), pids_.end(),
                       [](pid_t pid) { return waitpid(pid, nullptr, WNOHANG) == 0; });
  }

 private:
  std::vector<pid_t> pids_;
};

TEST_F(StatusStrangers, WhoConnectWithoutEndKeepNoCommunicatorFromEnding) {
  const StatusJob status;
  RankProcesses ranks(2, status.job(), [](EngineRank& seat) {
    seat.mark(1);
    seat.wait_flag(1);
    seat.comm.reset();
    seat.mark(2);
  });
  ASSERT_TRUE(ranks.wait_stage(1));
  const Flood flood(status.port, 3);
  nap(1);
  ranks.board().flag.store(1);
  EXPECT_TRUE(ranks.wait_stage(2));
  EXPECT_TRUE(ranks.wait_exits());
  EXPECT_TRUE(flood.is_running());
}

}  // namespace
}  // namespace rondo::test
