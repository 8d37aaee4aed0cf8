// SPDX-License-Identifier: Apache-2.0
// A job serves its metrics at a port or as a file; what is wrong with either costs one line.
#include <arpa/inet.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <sstream>

#include "base/fd.h"
#include "base/log.h"
#include "collectives/status/inspect.h"
#include "tests/support/engine_rank.h"
#include "tests/support/ports.h"
#include "tests/support/processes.h"
#include "tests/support/sample_calls.h"
#include "tests/support/temporary_folder.h"

namespace rondo::test {
namespace {

using testing::HasSubstr;

sockaddr_in loopback(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

// A socket bound to a free port.
struct TakenPort {
  TakenPort() : socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address = loopback(0);
    socklen_t length = sizeof(address);
    EXPECT_EQ(bind(socket.get(), reinterpret_cast<sockaddr*>(&address), length), 0);
    EXPECT_EQ(listen(socket.get(), 1), 0);
    getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &length);
    port = ntohs(address.sin_port);
  }
  Fd socket;
  int port = 0;
};

Fd connected_to(int port) {
  Fd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const sockaddr_in address = loopback(port);
  if (connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0)
    socket.reset();
  return socket;
}

std::string scraped_once(int port) {
  const Fd socket = connected_to(port);
  const std::string request = "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n";
  if (!socket || send(socket.get(), request.data(), request.size(), MSG_NOSIGNAL) < 0) return "";
  std::string text;
  char buffer[4096];
  for (ssize_t got; (got = read(socket.get(), buffer, sizeof(buffer))) > 0;)
    text.append(buffer, static_cast<std::size_t>(got));
  return text;
}

// The server drops a client that asks too late, as this one may on a busy machine.
std::string scraped(int port) {
  std::string text;
  wait_until([&] { return !(text = scraped_once(port)).empty(); });
  return text;
}

std::string file_text(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

Job with_metrics(const std::string& place, Environment more = {}) {
  Job job;
  job.comm = short_timeouts();
  job.comm.name = "world";
  job.environment = {{"RONDO_METRICS", place}};
  job.environment.insert(job.environment.end(), more.begin(), more.end());
  return job;
}

// Ten all-reduces of 400 bytes; then the rank stays until flag 1.
void work(EngineRank& seat) {
  SampleCall sample(Collective::kAllReduce, 100, seat.size);
  for (int i = 0; i < 10; ++i) seat.expect(seat.comm->run({&sample.call, 1}).ok(), "a call");
  seat.mark(1);
  seat.wait_flag(1);
}

constexpr const char* kTenCalls =
    R"(rondo_calls_total{communicator="world",rank="2",collective="AllReduce",size="<=1KiB"} 10)"
    "\n";

TEST(MetricsAtAPort, AreThoseOfAllRanksOfTheHost) {
  const int port = reserved_port();
  RankProcesses ranks(3, with_metrics(std::to_string(port)), work);
  ASSERT_TRUE(ranks.wait_stage(1));
  const Fd silent = connected_to(port);  // delays nobody
  const std::string text = scraped(port);
  EXPECT_TRUE(text.starts_with("HTTP/1.1 200 OK\r\n")) << text;
  EXPECT_THAT(text, HasSubstr(kTenCalls));
  const auto shown_by_ps = inspect_process(ranks.pid(0));
  ASSERT_TRUE(shown_by_ps.ok()) << shown_by_ps.error().text;
  EXPECT_THAT(text,
              HasSubstr(fmt::format("rondo_communicator_info{{communicator=\"world\",id=\"{}\"",
                                    hash_text(shown_by_ps->front().hash))));
  ranks.board().flag.store(1);
  ASSERT_TRUE(ranks.wait_exits());
  ranks.check_expectations();
}

TEST(MetricsAtAPort, CountTheBytesBetweenHosts) {
  const int port = reserved_port();
  Job job = with_metrics(std::to_string(port));
  job.hosts = {"a", "b"};
  job.processes = as_processes(2).processes;
  RankProcesses ranks(job, [](EngineRank& seat) {
    work(seat);
    SampleCall sample(Collective::kAllReduce, 100, seat.size);
    seat.expect(!seat.comm->run({&sample.call, 1}).ok(), "a call without its peer");
    seat.wait_flag(2);
  });
  ASSERT_TRUE(ranks.wait_stage(1));
  const std::string text = scraped(port);
  const auto value = [&](const std::string& name) {
    const std::size_t at = text.find("\n" + name + "{");
    const std::size_t end = std::min(text.find("} ", at), text.size() - 2);
    return at == std::string::npos ? -1 : std::stod(text.substr(end + 2));
  };
  EXPECT_GE(value("rondo_network_sent_bytes_total"), 4000) << text;
  EXPECT_GE(value("rondo_network_received_bytes_total"), 4000) << text;
  EXPECT_EQ(value("rondo_rail_sent_bytes_total"), value("rondo_network_sent_bytes_total")) << text;
  EXPECT_EQ(value("rondo_rail_received_bytes_total"), value("rondo_network_received_bytes_total"));
  EXPECT_EQ(text.find(",rail=\"Socket\"} "), std::string::npos) << "an interface is known";
  EXPECT_GT(value("rondo_memory_bytes"), 256 << 10) << "the record of calls, at least";
  EXPECT_EQ(value("rondo_network_lost_rails_total"), 0) << text;
  EXPECT_EQ(value("rondo_network_resent_parts_total"), 0) << text;
  EXPECT_EQ(value("rondo_network_lost_peers_total"), 0) << text;
  // Both hosts are this machine: the first one has the port.
  const int serving = text.find("rank=\"0\"") != std::string::npos ? 0 : 1;
  const std::string lost = "rondo_network_lost_peers_total{communicator=\"world\",rank=\"" +
                           std::to_string(serving) + "\"} 1";
  ranks.send(1 - serving, SIGKILL);
  ranks.board().flag.store(1);
  EXPECT_TRUE(wait_until([&] { return scraped(port).find(lost) != std::string::npos; }));
  ranks.board().flag.store(2);
}

TEST(MetricsInAFile, AreReplacedAndRemovedAtTheEnd) {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/rondo.prom";
  Job job = with_metrics(path);
  job.leave_by_exit = true;
  RankProcesses ranks(3, job, work);
  EXPECT_TRUE(wait_until([&] { return file_text(path).find(kTenCalls) != std::string::npos; }))
      << file_text(path);
  ranks.board().flag.store(1);
  ASSERT_TRUE(ranks.wait_exits());
  ranks.check_expectations();
  EXPECT_NE(access(path.c_str(), F_OK), 0);
}

TEST(MetricsThatCannotBeServed, CostOneLine) {
  const TemporaryFolder folder;
  const TakenPort taken;
  const std::string fifo = folder.path() + "/fifo";  // as a device: nothing may remove it
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  const Fd reader(::open(fifo.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK));
  const std::pair<std::string, std::string> cases[] = {
      {fifo, "it is a FIFO"},
      {std::to_string(taken.port), "Address already in use"},
      {"/proc/none/x.prom", "No such file or directory"},
      {"70000", "70000"}};
  int number = 0;
  for (const auto& [place, why] : cases) {
    const std::string log = fmt::format("{}/log.{}.%p", folder.path(), ++number);
    Job job = with_metrics(place, {{"NCCL_DEBUG", "WARN"}, {"NCCL_DEBUG_FILE", log}});
    job.create = false;
    RankProcesses ranks(2, job, [](EngineRank& seat) {
      log::reset();  // this process has read the variables of the test's
      seat.expect(seat.join(short_timeouts()).ok(), "create");
      seat.board.flag.store(1);
      work(seat);
    });
    ASSERT_TRUE(ranks.wait_exits());
    ranks.check_expectations();
    const std::string text =
        file_text(fmt::format("{}/log.{}.{}", folder.path(), number, ranks.pid(0)));
    EXPECT_THAT(text, HasSubstr(fmt::format("RONDO_METRICS={}: ", place)));
    EXPECT_THAT(text, HasSubstr(why));
    EXPECT_THAT(text, HasSubstr("the job goes on without metrics"));
    EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1) << text;
  }
  EXPECT_EQ(access(fifo.c_str(), F_OK), 0);
}

}  // namespace
}  // namespace rondo::test
