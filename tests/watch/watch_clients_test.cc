// SPDX-License-Identifier: Apache-2.0
// Watched jobs answer scrapers of metrics (RONDO_METRICS), clients of NCCL's RAS service
// (RONDO_WATCH_RAS) and `rondo trace`, as Rondo's own jobs do.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/json.h"
#include "tests/support/ports.h"
#include "tests/support/processes.h"
#include "tests/support/status_job.h"
#include "tests/watch/simulated_nccl.h"

namespace rondo::test {
namespace {

using testing::HasSubstr;

constexpr int kWatchedRanks = 3, kCallsOfEach = 10;

// All that a server of this host sends after `asks`.
std::string answer_at(std::uint16_t port, const std::string& asks) {
  const Fd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (connect(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0 ||
      send(socket.get(), asks.data(), asks.size(), MSG_NOSIGNAL) < 0)
    return "";
  std::string text;
  char buffer[4096];
  for (ssize_t got; (got = read(socket.get(), buffer, sizeof(buffer))) > 0;)
    text.append(buffer, static_cast<std::size_t>(got));
  return text;
}

class WatchClients : public testing::Test {
 protected:
  // Ten all-reduces of 400 bytes; then the ranks stay until flag 1.
  std::unique_ptr<RankProcesses> start(const Environment& more) const {
    Job job(as_processes(kWatchedRanks).under(status_.environment()).under(more));
    job.create = false;
    const auto comm = make_simulated_comm();
    auto ranks = std::make_unique<RankProcesses>(job, [comm](RankSeat& seat) {
      SimulatedRank rank({.plugin = RONDO_TEST_WATCH_PLUGIN, .rank = seat.rank, .ranks = seat.size},
                         comm);
      for (int call = 0; call < kCallsOfEach; ++call) rank.collective("AllReduce", 100);
      rank.wait_for_gpu();
      seat.mark(1);
      seat.wait_flag(1);
    });
    EXPECT_TRUE(ranks->wait_stage(1));
    return ranks;
  }
  static bool has_all(const std::string& metrics) {
    for (int rank = 0; rank < kWatchedRanks; ++rank)
      if (metrics.find(fmt::format("rondo_calls_total{{communicator=\"world\",rank=\"{}\","
                                   "collective=\"AllReduce\",size=\"<=1KiB\"}} {}\n",
                                   rank, kCallsOfEach)) == std::string::npos)
        return false;
    return true;
  }
  const StatusJob status_;
  const std::uint16_t port_ = reserved_port();
};

TEST_F(WatchClients, ScrapeTheMetricsOfAllRanksOfTheHost) {
  const auto ranks = start({{"RONDO_METRICS", std::to_string(port_)}});
  std::string text;
  EXPECT_TRUE(wait_until([&] {
    text = answer_at(port_, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
    return has_all(text);
  })) << text;
  ranks->board().flag = 1;
  EXPECT_TRUE(ranks->wait_exits());
  ranks->check_expectations();
}

TEST_F(WatchClients, ReadTheMetricsAsAFile) {
  const std::string file = status_.folder.path() + "/watched.prom";
  const auto ranks = start({{"RONDO_METRICS", file}});
  std::string text;
  EXPECT_TRUE(wait_until([&] {
    std::ifstream stream(file);
    text.assign(std::istreambuf_iterator<char>(stream), {});
    return has_all(text);
  })) << text;
  ranks->board().flag = 1;
}

// A track for each rank, on it each call in its order: a slice, or where it was enqueued during an
// earlier one, a pair of begin and end.
TEST_F(WatchClients, WriteATraceForPerfetto) {
  const auto ranks = start({});
  const std::string file = status_.folder.path() + "/job.json";
  const std::string command =
      fmt::format("{} trace {} --chrome {} >/dev/null", RONDO_TEST_PROGRAM, ranks->pid(1), file);
  std::map<int, std::vector<const Json*>> calls;
  Json trace;
  EXPECT_TRUE(wait_until([&] {  // its own process is known first, then the others
    if (std::system(command.c_str()) != 0) return false;
    std::ifstream stream(file);
    trace = Json::parse(std::string{std::istreambuf_iterator<char>(stream), {}});
    calls.clear();
    for (const Json& event : trace.at("traceEvents").elements())
      if (const std::string& is = event.at("ph").string();
          (is == "X" || is == "b") && event.at("cat").string() == "call")
        calls[static_cast<int>(event.at("pid").number())].push_back(&event);
    return calls.size() == kWatchedRanks;
  }));
  for (int rank = 0; rank < kWatchedRanks; ++rank) {
    ASSERT_EQ(calls[rank].size(), static_cast<std::size_t>(kCallsOfEach)) << rank;
    double until = 0;
    for (const Json* const call : calls[rank]) {
      EXPECT_EQ(call->at("name").string(), "AllReduce");
      EXPECT_EQ(call->at("args").at("bytes").number(), 400);
      EXPECT_GE(call->at("ts").number(), until) << rank;
      EXPECT_TRUE(call->at("ph").string() == "b" || call->at("dur").number() > 0) << rank;
      until = call->at("ts").number();
    }
  }
  ranks->board().flag = 1;
}

TEST_F(WatchClients, AskAsNcclsRasClientsDo) {
  const auto ranks = start({{"RONDO_WATCH_RAS", fmt::format("127.0.0.1:{}", port_)}});
  std::string text;
  EXPECT_TRUE(wait_until([&] {
    text = answer_at(port_, "CLIENT PROTOCOL 2\nSET FORMAT json\nSTATUS\n");
    const std::size_t begins = text.find('{');
    if (begins == std::string::npos) return false;
    const Json report = Json::parse(text.substr(begins));
    const auto& all = report.at("communicators").elements();
    if (all.size() != 1 || all[0].at("ranks_count").number() != kWatchedRanks) return false;
    for (const Json& rank : all[0].at("ranks").elements())
      if (rank.at("collective_counts").at("AllReduce").number() != kCallsOfEach) return false;
    return true;
  })) << text;
  EXPECT_THAT(text, HasSubstr("SERVER PROTOCOL 2\n"));
  ranks->board().flag = 1;
}

// All processes have opened their sockets before their first call.
TEST_F(WatchClients, FindNoPortWhereNoneIsAskedFor) {
  const auto ranks = start({{"NCCL_RAS_ADDR", fmt::format("127.0.0.1:{}", port_)}});
  EXPECT_EQ(answer_at(port_, "STATUS\n"), "") << "the port is that of the program's NCCL";
  ranks->board().flag = 1;
}

}  // namespace
}  // namespace rondo::test
