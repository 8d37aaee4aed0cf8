// SPDX-License-Identifier: Apache-2.0
// Status sockets: the user's folder, and the protocol of lines with clients of every kind.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "tests/support/environment.h"
#include "tests/support/in_child.h"
#include "tests/support/temporary_folder.h"
#include "transport/socket/tcp.h"
#include "transport/status/line_server.h"
#include "transport/status/question.h"
#include "transport/status/user_folder.h"

namespace rondo::status {
namespace {

using test::TemporaryFolder;
using test::WithEnvironment;

std::vector<Word> sample_words() {
  return {{"VERBOSE STATUS",
           [](Conversation&, std::string_view) {
             return Reply{"verbose\n", true};
           }},
          {"STATUS",
           [](Conversation& client, std::string_view argument) {
             return Reply{fmt::format("status {} '{}'\n", client.json, argument), true};
           }},
          {"SET FORMAT",
           [](Conversation& client, std::string_view format) {
             client.json = format == "json";
             return Reply{"OK\n", false};
           }},
          {"LONG", [](Conversation&, std::string_view) {
             return Reply{std::string(8 << 20, 'x'), true};
           }}};
}

// A server that runs on its own thread until the end of the test.
class RunningServer {
 public:
  explicit RunningServer(const net::Socket& listener) : server_(sample_words()) {
    server_.listen_at(listener);
    thread_ = std::thread([this] {
      while (!stop_) {
        std::vector<pollfd> entries;
        server_.add_entries(&entries);
        ++turns_;
        poll(entries.data(), entries.size(), 10);
        server_.step();
      }
    });
  }
  ~RunningServer() {
    stop_ = true;
    thread_.join();
  }

 private:
  LineServer server_;
  std::atomic<bool> stop_{false};
  std::atomic<long> turns_{0};
  std::thread thread_;
};

struct UserFolders : testing::Test {
  TemporaryFolder folder;
  const std::string path = folder.path() + "/status";
  WithEnvironment named{"RONDO_STATUS_DIR", path};
};

struct StatusLines : UserFolders {
  UserFolder own = UserFolder::open_own().value();
  const SocketName name{getpid(), 7};
  StatusSocket socket = StatusSocket::listen_in(own, name).value();
  RunningServer server{socket.socket()};

  std::string ask(const std::string& lines, int seconds = 100) {
    std::vector<Question> questions;
    questions.push_back(Question::to_socket(own.path_of(name), lines,
                                            net::Clock::now() + std::chrono::seconds(seconds)));
    await_answers(questions);
    return questions[0].answer().ok() ? *questions[0].answer() : questions[0].answer().error().text;
  }
};

TEST_F(UserFolders, AreMadeForTheUserAloneAndAnyOtherIsRefused) {
  EXPECT_EQ(UserFolder::find(geteuid()).code(), StatusCode::kInvalidArgument);
  ASSERT_TRUE(UserFolder::open_own().ok());
  struct stat info {};
  ASSERT_EQ(stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777u, 0700u);
  EXPECT_TRUE(UserFolder::find(geteuid()).ok());
  ASSERT_EQ(chmod(path.c_str(), 0770), 0);
  EXPECT_FALSE(UserFolder::open_own().ok());
  EXPECT_FALSE(UserFolder::find(geteuid()).ok());
  ASSERT_EQ(rmdir(path.c_str()), 0);
  ASSERT_EQ(symlink(folder.path().c_str(), path.c_str()), 0);
  EXPECT_FALSE(UserFolder::open_own().ok());
}

TEST_F(UserFolders, ListSocketsAndSweepThoseOfEndedProcesses) {
  const UserFolder own = UserFolder::open_own().value();
  const std::string ended = test::in_child([&] {
    auto socket = StatusSocket::listen_in(own, {getpid(), 1});
    if (!socket.ok()) return socket.error().text;
    _exit(0);
  });
  EXPECT_EQ(ended, "");
  const StatusSocket mine = StatusSocket::listen_in(own, {getpid(), 2}).value();
  EXPECT_EQ(own.sockets().size(), 2u);
  own.sweep(10);
  ASSERT_EQ(own.sockets().size(), 1u);
  EXPECT_EQ(own.sockets()[0], (SocketName{getpid(), 2}));
  EXPECT_FALSE(SocketName::parse("12-0").has_value());
  EXPECT_FALSE(SocketName::parse("..").has_value());
}

TEST_F(StatusLines, AreAnsweredInAnyCaseWithWhatTheClientHasSet) {
  EXPECT_EQ(ask("STATUS"), "status false ''\n");
  EXPECT_EQ(ask("status  now \r"), "status false 'now'\n");
  EXPECT_EQ(ask("set format json\nVerbose Status"), "OK\nverbose\n");
  EXPECT_EQ(ask("SET FORMAT json\nSTATUS"), "OK\nstatus true ''\n");
  EXPECT_EQ(ask("STATUSES\nHELLO \x1b[2J\nSTATUS"),
            "ERROR: Unknown command STATUSES\nERROR: Unknown command HELLO \\x1b[2J\n"
            "status false ''\n");
}

TEST_F(StatusLines, ThatAreTooLongEndTheConnection) {
  const std::string answer = ask(std::string(1100, 'a') + "\nSTATUS");
  EXPECT_EQ(answer.find("status false"), std::string::npos) << answer;
  EXPECT_EQ(ask("STATUS"), "status false ''\n");
}

// Clients that ask for long answers and do not read, or ask nothing, delay no other client.
TEST_F(StatusLines, OfSlowReadersDelayNoOtherClient) {
  std::vector<StatusConnection> slow;
  for (std::size_t i = 0; i + 2 < LineServer::kMaxVisitors; ++i) {
    slow.push_back(connect_status(own.path_of(name)));
    ASSERT_EQ(slow.back().error, 0);
    if (i % 2 == 0) {
      ASSERT_EQ(send(slow.back().socket.get(), "LONG\n", 5, MSG_NOSIGNAL), 5);
    }
  }
  for (int turn = 0; turn < 20; ++turn) EXPECT_EQ(ask("STATUS"), "status false ''\n");
  EXPECT_EQ(ask("LONG").size(), std::size_t{8} << 20);
}

TEST(StatusOverTcp, AnswersThisUserOnLoopback) {
  const unsigned char loopback[] = {127, 0, 0, 1};
  const net::Socket listener = net::listen_tcp(net::SocketAddress::v4(loopback, 0), true).value();
  const net::SocketAddress at = net::local_address(listener).value();
  RunningServer server(listener);
  const auto ask = [&] {
    const net::Deadline deadline = net::Deadline::of(std::chrono::seconds(100));
    auto socket = net::connect_tcp({&at, 1}, deadline);
    if (!socket.ok()) return socket.error().text;
    if (send(socket->get(), "STATUS\n", 7, MSG_NOSIGNAL) != 7) return std::string("not sent");
    pollfd entry{socket->get(), POLLIN, 0};
    if (!net::wait_ready({&entry, 1}, deadline, "the answer").ok()) return std::string("silence");
    char buffer[100];
    const ssize_t count = recv(socket->get(), buffer, sizeof(buffer), 0);
    return count > 0 ? std::string(buffer, static_cast<std::size_t>(count)) : "closed";
  };
  EXPECT_EQ(ask(), "status false ''\n");
  if (geteuid() != 0) return;
  constexpr uid_t kStranger = 12345;
  EXPECT_EQ(test::in_child([&]() -> std::string {
              if (setresuid(kStranger, kStranger, kStranger) != 0) return "no other user";
              return ask();
            }),
            "closed");
}

TEST_F(StatusLines, AreRefusedToAnotherUser) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  constexpr uid_t kStranger = 12345;
  // Even where the folder lets it through.
  ASSERT_EQ(chmod(folder.path().c_str(), 0755), 0);
  ASSERT_EQ(chmod(path.c_str(), 0755), 0);
  ASSERT_EQ(chmod(own.path_of(name).c_str(), 0777), 0);
  EXPECT_EQ(test::in_child([&]() -> std::string {
              if (setresuid(kStranger, kStranger, kStranger) != 0) return "no other user";
              const StatusConnection made = connect_status(own.path_of(name));
              if (made.error != 0) return "not connected";
              pollfd entry{made.socket.get(), POLLIN, 0};
              (void)poll(&entry, 1, 100'000);
              char buffer[100];
              const ssize_t count = recv(made.socket.get(), buffer, sizeof(buffer), 0);
              return count > 0 ? "an answer" : "closed";
            }),
            "closed");
}

}  // namespace
}  // namespace rondo::status
