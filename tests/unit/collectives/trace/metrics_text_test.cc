// SPDX-License-Identifier: Apache-2.0
// The metrics are valid Prometheus text, and their numbers are those of the black boxes.
#include "collectives/trace/metrics_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>

#include "collectives/trace/metrics.h"
#include "tests/unit/collectives/trace/sample_traces.h"

namespace rondo::trace {
namespace {

using testing::HasSubstr;

// Checks the text by the rules of exposition format 0.0.4; returns the samples.
std::map<std::string, double> parsed(const std::string& text) {
  std::map<std::string, double> samples;
  std::map<std::string, std::string> types;
  std::set<std::string> closed;
  std::string current;
  std::istringstream lines(text);
  const std::regex help("# HELP ([a-zA-Z_:][a-zA-Z0-9_:]*) .+");
  const std::regex type("# TYPE ([a-zA-Z_:][a-zA-Z0-9_:]*) (counter|gauge)");
  const std::regex sample(R"re(([a-z_]+)\{(([a-z_]+="([^"\\]|\\.)*",?)+)\} (-?[0-9][0-9.e+-]*))re");
  EXPECT_TRUE(text.ends_with('\n'));
  for (std::string line; std::getline(lines, line);) {
    std::smatch found;
    if (std::regex_match(line, found, help)) {
      if (!current.empty()) closed.insert(current);
      current = found[1];
      EXPECT_FALSE(closed.contains(current)) << line;
    } else if (std::regex_match(line, found, type)) {
      EXPECT_EQ(found[1], current);
      types[current] = found[2];
      EXPECT_EQ(types[current] == "counter", current.ends_with("_total")) << line;
    } else if (std::regex_match(line, found, sample)) {
      EXPECT_EQ(found[1], current) << line;
      EXPECT_TRUE(samples.emplace(line.substr(0, line.rfind(' ')), std::stod(found[5])).second)
          << line;
    } else {
      ADD_FAILURE() << "not a line of the format: " << line;
    }
  }
  return samples;
}

std::vector<TracedComm> sample_comms() {
  std::vector<RankTrace> traces = test::sample_traces();
  for (RankTrace& rank : traces) {
    rank.totals.push_back(
        {Collective::kAllReduce, 1, rank.entered, rank.entered * 4096, 5'000'000});
    rank.read_ns = 52'000'000;
    rank.shared_bytes = 1 << 20;
  }
  traces[0].fault = "rank 1 ended";
  traces[0].rails = {{"mlx5_0:1", 700, 800, 2'000'000'000}, {"mlx5_1:1", 70, 80, 0}};
  traces[0].own_bytes = 5000;
  traces[1].device_bytes = 6000;
  return comms_of(traces);
}

TEST(Metrics, AreThoseOfTheBlackBoxes) {
  const std::vector<TracedComm> comms = sample_comms();
  LateSums late;
  late.add(comms);
  auto samples = parsed(metrics_text(comms, late));
  const auto of = [&](const std::string& name) {
    EXPECT_TRUE(samples.contains(name)) << name;
    return samples[name];
  };
  const std::string kind = R"(,collective="AllReduce",size="<=32KiB"})";
  EXPECT_EQ(of(R"(rondo_calls_total{communicator="weights",rank="0")" + kind), 3);
  EXPECT_EQ(of(R"(rondo_call_bytes_total{communicator="weights",rank="1")" + kind), 2 * 4096);
  EXPECT_EQ(of(R"(rondo_call_seconds_total{communicator="weights",rank="1")" + kind), 0.005);
  EXPECT_NEAR(of(R"(rondo_late_seconds_total{communicator="weights",rank="1"})"), 0.041, 1e-6);
  EXPECT_EQ(of(R"(rondo_late_seconds_total{communicator="weights",rank="2"})"), 0);
  EXPECT_EQ(of(R"(rondo_skew_calls_total{communicator="weights"})"), 2);
  EXPECT_EQ(of(R"(rondo_call_open_seconds{communicator="weights",rank="0"})"), 0.002);
  EXPECT_EQ(of(R"(rondo_call_open_seconds{communicator="weights",rank="1"})"), 0);
  EXPECT_EQ(of(R"(rondo_faults_total{communicator="weights",rank="0"})"), 1);
  EXPECT_EQ(of(R"(rondo_shared_memory_bytes{communicator="weights"})"), 1 << 20);
  const std::string rail = R"({communicator="weights",rank="0",rail="mlx5_0:1"})";
  EXPECT_EQ(of("rondo_rail_sent_bytes_total" + rail), 700);
  EXPECT_EQ(of("rondo_rail_received_bytes_total" + rail), 800);
  EXPECT_EQ(of("rondo_rail_busy_seconds_total" + rail), 2);
  EXPECT_EQ(of(R"(rondo_rail_sent_bytes_total{communicator="weights",rank="0",rail="mlx5_1:1"})"),
            70);
  EXPECT_EQ(of(R"(rondo_memory_bytes{communicator="weights",rank="0",kind="shared"})"), 5000);
  EXPECT_EQ(of(R"(rondo_memory_bytes{communicator="weights",rank="1",kind="device"})"), 6000);
  // Calls 1 and 2 moved 4096 bytes each, in 0.5 ms and 0.9 ms.
  EXPECT_NEAR(of(R"(rondo_bus_bandwidth_bytes_per_second{communicator="weights")" + kind),
              2 * 4096 * 4.0 / 3 / 1.4e-3, 10);
}

// A victim's call is open; the rank for which it waits is in none.
TEST(Metrics, NameTheRankForWhichOthersWait) {
  const std::vector<TracedComm> comms = sample_comms();
  const std::uint64_t id = comms[0].first().communicator;
  const std::vector<Culprit> culprits = {{id, 1, 7.5, false}, {id, 9, 3, true}, {77, 0, 5, false}};
  auto samples = parsed(metrics_text(comms, {}, culprits));
  const auto of = [&](const std::string& name) {
    EXPECT_TRUE(samples.contains(name)) << name;
    return samples[name];
  };
  EXPECT_EQ(of(R"(rondo_call_open_seconds{communicator="weights",rank="1"})"), 0);
  EXPECT_EQ(of(R"(rondo_blamed_seconds{communicator="weights",rank="1"})"), 7.5);
  EXPECT_EQ(of(R"(rondo_blamed_seconds{communicator="weights",rank="0"})"), 0);
  EXPECT_EQ(of(R"(rondo_blamed_elsewhere_seconds{communicator="weights",rank="9"})"), 3);
  const std::string info = R"(communicator="weights",id="0x1f2e3d4c5b6a7988",size="3")";
  EXPECT_EQ(of("rondo_communicator_info{" + info + "}"), 1);
}

TEST(Metrics, CountACallOnce) {
  const std::vector<TracedComm> comms = sample_comms();
  LateSums late;
  late.add(comms);
  late.add(comms);
  EXPECT_EQ(late.of(comms[0]).calls, 2u);
}

TEST(Metrics, LabelsAreUnique) {
  std::vector<RankTrace> traces;
  for (const std::uint64_t id : {1, 2, 3, 4}) {
    traces.push_back(test::sample_traces()[0]);
    traces.back().communicator = id;
    traces.back().name = id < 3 ? "a\"b\\c" : "";
  }
  const std::vector<TracedComm> comms = comms_of(traces);
  EXPECT_EQ(labels_of(comms), (std::vector<std::string>{"a\"b\\c", "a\"b\\c#1", "#0", "#1"}));
  EXPECT_THAT(metrics_text(comms, {}), HasSubstr(R"({communicator="a\"b\\c#1",rank="0"})"));
  parsed(metrics_text(comms, {}));
}

TEST(Metrics, AnswerOnlyTheirPath) {
  EXPECT_THAT(answer_to("GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n", "x 1\n"),
              HasSubstr("200 OK\r\nContent-Type: text/plain; version=0.0.4"));
  EXPECT_TRUE(answer_to("GET /metrics?a=b HTTP/1.1\r\n\r\n", "x 1\n").ends_with("\r\n\r\nx 1\n"));
  EXPECT_THAT(answer_to("GET /other HTTP/1.1\r\n\r\n", ""), HasSubstr("404"));
  EXPECT_THAT(answer_to("POST /metrics HTTP/1.1\r\n\r\n", ""), HasSubstr("405"));
  EXPECT_THAT(answer_to("", ""), HasSubstr("405"));
}

TEST(Metrics, GoToAPortOrAFile) {
  const auto place = [](const char* text) { return parse_metrics_place(text, "node7"); };
  EXPECT_EQ(place("9400")->listen->port, 9400);
  EXPECT_EQ(place("9400")->listen->host, "127.0.0.1");
  EXPECT_EQ(place("0.0.0.0:9400")->listen->host, "0.0.0.0");
  EXPECT_EQ(place("[::1]:9400")->listen->host, "::1");
  EXPECT_EQ(place("/tmp/a:9400/b.prom")->file, "/tmp/a:9400/b.prom");
  EXPECT_EQ(place("b.prom")->file, "b.prom");
  EXPECT_EQ(place("/%h.prom")->file, "/node7.prom");
  EXPECT_FALSE(place("70000").ok());
}

// The name of a host chooses neither the folder nor another pattern.
TEST(Metrics, GoToAFileOfTheFolderWhateverTheHostIsCalled) {
  const auto file = [](const char* host) {
    return parse_metrics_place("/var/%h/rondo-%h.prom", host)->file;
  };
  EXPECT_EQ(file("a%h"), "/var/a%h/rondo-a%h.prom");
  EXPECT_EQ(file("../../etc"), "/var/_._.._etc/rondo-_._.._etc.prom");
  EXPECT_EQ(file("/etc/cron.d"), "/var/_etc_cron.d/rondo-_etc_cron.d.prom");
  EXPECT_EQ(file("."), "/var/_/rondo-_.prom");
  EXPECT_EQ(file(".."), "/var/_./rondo-_..prom");
  EXPECT_EQ(file("a\nb"), "/var/a_b/rondo-a_b.prom");
}

}  // namespace
}  // namespace rondo::trace
