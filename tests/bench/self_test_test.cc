// SPDX-License-Identifier: Apache-2.0
// rondo doctor --self-test: what it concludes from rates and wrong data; and as a program, on
// healthy ranks, and with a network that flips bits or has a tenth of its rate.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "bench/cli/self_test.h"
#include "bench/self_test.h"
#include "kernels/algorithms/table.h"
#include "tests/bench/fake_backend.h"
#include "tests/bench/shell.h"
#include "tests/support/temporary_folder.h"

namespace rondo::cli {
namespace {

using bench::SelfTestResult;

// Ranks on hosts "a", "b" ..., all pairs at `gbs`.
SelfTestResult cluster(int hosts, int ranks_per_host, double gbs) {
  SelfTestResult result;
  for (int r = 0; r < hosts * ranks_per_host; ++r) {
    bench::Rank rank;
    rank.rank = r;
    rank.host = std::string(1, static_cast<char>('a' + r / ranks_per_host));
    rank.device = "host memory";
    result.ranks.push_back(rank);
  }
  for (int from = 0; from < hosts * ranks_per_host; ++from)
    for (int to = from + 1; to < hosts * ranks_per_host; ++to) {
      bench::LinkRate link;
      link.from = from, link.to = to, link.gbs = gbs;
      link.across = from / ranks_per_host != to / ranks_per_host;
      if (link.across && from % ranks_per_host != to % ranks_per_host) continue;
      result.links.push_back(link);
    }
  result.ways.push_back({"all_reduce", "ring", 100, 0, 0, 0, 0});
  return result;
}

bench::LinkRate& link_of(SelfTestResult& result, int from, int to) {
  for (bench::LinkRate& link : result.links)
    if (link.from == from && link.to == to) return link;
  throw std::runtime_error("no such link");
}

std::vector<Finding> problems_of(const SelfTestResult& result) {
  std::vector<Finding> found;
  for (const Finding& finding : findings_of(result))
    if (finding.verdict == Verdict::kProblem) found.push_back(finding);
  return found;
}

TEST(SelfTestFindings, FindsNothingInAHealthyCluster) {
  SelfTestResult result = cluster(4, 2, 10);
  link_of(result, 0, 2).gbs = 6;  // more than half
  for (const Finding& finding : findings_of(result))
    EXPECT_EQ(finding.verdict, Verdict::kOk) << finding.text;
  EXPECT_NE(page_of(result, findings_of(result)).find("4 hosts"), std::string::npos);
}

TEST(SelfTestFindings, NamesTheLinkThatIsSlow) {
  SelfTestResult result = cluster(4, 2, 10);
  link_of(result, 3, 5).gbs = 1;
  const auto problems = problems_of(result);
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_EQ(problems[0].subject, "link 3 - 5");
  EXPECT_EQ(
      problems[0].text,
      "1 GB/s between rank 3 (host b) and rank 5 (host c); a quarter of the 12 such links has "
      "10 GB/s or more");
  EXPECT_FALSE(problems[0].remedy.empty());
}

TEST(SelfTestFindings, NamesTheOneHostOfThreeThatIsSlow) {
  SelfTestResult result = cluster(3, 1, 10);
  link_of(result, 0, 2).gbs = link_of(result, 1, 2).gbs = 1;
  const auto problems = problems_of(result);
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_EQ(problems[0].subject, "links of rank 2");
}

TEST(SelfTestFindings, WarnWithinHostsWhoseCoresAreShared) {
  SelfTestResult result = cluster(1, 3, 10);
  link_of(result, 0, 2).gbs = 1;
  EXPECT_EQ(problems_of(result).size(), 1u);
  result.of_ranks = {packed({{Verdict::kWarning, "load", "9 on 2 CPUs", ""}})};
  EXPECT_TRUE(problems_of(result).empty());
}

TEST(SelfTestFindings, NamesTheRankOfWhichAllLinksAreSlow) {
  SelfTestResult result = cluster(5, 1, 10);
  for (bench::LinkRate& link : result.links)
    if (link.from == 2 || link.to == 2) link.gbs = 1;
  const auto problems = problems_of(result);
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_EQ(problems[0].subject, "links of rank 2");
  EXPECT_NE(problems[0].text.find("all 4 links of rank 2 (host c) to other hosts are slow"),
            std::string::npos)
      << problems[0].text;
}

TEST(SelfTestFindings, ComparesWithThePortsAndWithTheModel) {
  SelfTestResult result = cluster(2, 1, 10);
  bench::LinkRate& link = result.links[0];
  const auto verdict_at = [&](double promised, bool by_ports) {
    link.promised_gbs = promised, link.by_ports = by_ports;
    return findings_of(result)[0].verdict;
  };
  EXPECT_EQ(verdict_at(12, true), Verdict::kOk);
  EXPECT_EQ(verdict_at(30, true), Verdict::kWarning);
  EXPECT_EQ(verdict_at(100, true), Verdict::kProblem);
  EXPECT_EQ(verdict_at(30, false), Verdict::kOk);
  EXPECT_EQ(verdict_at(100, false), Verdict::kWarning);
}

TEST(SelfTestFindings, NamesRanksAndLinksWithWrongData) {
  SelfTestResult result = cluster(2, 2, 10);
  result.wrong.push_back(
      {"all_reduce", "ring", "float", "sum", 10000, true, 3, 2, "element 7 is 5"});
  link_of(result, 1, 3).wrong = 4;
  link_of(result, 1, 3).example = "rank 3: element 1 is 2";
  result.of_ranks = {packed({{Verdict::kProblem, "file descriptors", "10", "ulimit -n 4096"}}),
                     "junk"};
  const auto problems = problems_of(result);
  ASSERT_EQ(problems.size(), 3u);
  EXPECT_EQ(problems[0].subject, "link 1 - 3");
  EXPECT_EQ(problems[1].subject, "data of rank 3");
  EXPECT_NE(problems[1].text.find("rank 3 (host b) got wrong results in 1 test, by the algorithms "
                                  "ring; the first: all_reduce by ring, float sum, 10000 bytes in "
                                  "place: 2 wrong elements: element 7 is 5"),
            std::string::npos)
      << problems[1].text;
  EXPECT_EQ(problems[2].subject, "file descriptors");
  const auto json = nlohmann::json::parse(json_of(result, findings_of(result)));
  EXPECT_EQ(json["problems"], 3);
  EXPECT_EQ(json["wrong_results"][0]["rank"], 3);
  EXPECT_EQ(json["links"].size(), result.links.size());
}

// ---- rounds ----

// One rank gathers float32 over the test's backend; in its call number `flips_in` a bit flips.
Result<SelfTestResult> gather_alone(double seconds, int flips_in, int* calls) {
  bench::SelfTestOptions options;
  options.seconds = seconds;
  options.types = {ncclFloat32};
  options.kinds = {bench::Kind::kAllGather};
  options.sizes = {40};
  options.large_bytes = 4096;
  auto world = std::make_shared<bench::FakeWorld>(1);
  world->after = [=](int, int, const bench::Call& call) {
    if (++*calls == flips_in) static_cast<unsigned char*>(call.recv)[6] ^= 4;
  };
  const rondo_launch_t alone{0, 1, -1, -1, "", 0};
  return bench::run_self_test({.options = options,
                               .launch = alone,
                               .make_backend = bench::fake_backends(world),
                               .mine = ""});
}

TEST(SelfTestRounds, RepeatUntilTheTimeIsOverAndALaterOneFindsAFlippedBit) {
  int once = 0, repeated = 0;
  const auto one = gather_alone(0, 0, &once);
  ASSERT_TRUE(one.ok()) << one.error().text;
  EXPECT_EQ(one->rounds, 1);
  EXPECT_TRUE(one->wrong.empty());

  double seconds = 2;
  const int last_of_round_2 = 2 * once;
  auto many = gather_alone(seconds, last_of_round_2, &repeated);
  while (many.ok() && many->rounds < 2 && seconds < 100) {  // round 1 took all the time
    seconds *= 4, repeated = 0;
    many = gather_alone(seconds, last_of_round_2, &repeated);
  }
  ASSERT_TRUE(many.ok()) << many.error().text;
  EXPECT_GE(many->seconds, seconds);
  ASSERT_GE(many->rounds, 2);
  EXPECT_EQ(repeated, many->rounds * once) << "each round makes the same calls";
  EXPECT_TRUE(many->errors.empty());
  EXPECT_EQ(many->ways.at(0).calls, one->ways.at(0).calls * static_cast<unsigned>(many->rounds));

  const auto json = nlohmann::json::parse(json_of(*many, findings_of(*many)));
  EXPECT_EQ(json["rounds"], many->rounds);
  EXPECT_EQ(json["problems"], 1);
  ASSERT_EQ(json["wrong_results"].size(), 1u);
  EXPECT_EQ(json["wrong_results"][0]["round"], 2);
  EXPECT_EQ(json["wrong_results"][0]["wrong_elements"], 1);
  EXPECT_NE(json["findings"][0]["found"].get<std::string>().find(
                fmt::format("the first, in round 2 of {}: all_gather by planned", many->rounds)),
            std::string::npos)
      << json.dump(1);
}

// ---- as a program ----

nlohmann::json self_test(const std::string& command) {
  const test::TemporaryFolder folder;
  const std::string errors = folder.path() + "/stderr";
  const ShellResult ran = shell(fmt::format("{{ {}; }} 2>{}", command, errors));
  try {
    return nlohmann::json::parse(ran.text);
  } catch (const nlohmann::json::exception& error) {
    ADD_FAILURE() << command << ": " << error.what() << "\n"
                  << ran.text << "\non stderr:\n"
                  << std::ifstream(errors).rdbuf();
    return nlohmann::json::object();
  }
}

std::string finding_of(const nlohmann::json& json, const std::string& subject,
                       const std::string& verdict) {
  for (const auto& finding : json.value("findings", nlohmann::json::array()))
    if (finding["subject"] == subject && finding["verdict"] == verdict) return finding["found"];
  return "";
}

TEST(SelfTestProgram, ChecksEveryCollectiveAndAlgorithm) {
  const auto json = self_test(RONDO_PROGRAM " doctor --self-test --ranks 3 --json");
  EXPECT_NE(finding_of(json, "data", "ok").find("every result is right"), std::string::npos)
      << json.dump(1);
  EXPECT_EQ(json["wrong_results"].size(), 0u);
  EXPECT_EQ(json["ranks"].size(), 3u);
  EXPECT_EQ(json["links"].size(), 3u);
  std::set<std::string> algorithms, collectives;
  for (const auto& way : json["algorithms"]) {
    algorithms.insert(way["algorithm"]);
    collectives.insert(way["collective"]);
    EXPECT_GT(way["calls"], 0);
  }
  std::set<std::string> expected{"planned"};
  for (const AlgorithmRow& row : kAlgorithms)
    if (row.runs(Where::kHost) && row.verbs != Verbs::kViews)  // those need two hosts
      expected.emplace(name(row.algorithm));
  EXPECT_EQ(algorithms, expected);
  EXPECT_EQ(collectives.size(), 15u) << "all but the hypercube, which needs a power of two";
}

TEST(SelfTestProgram, RepeatsForAFractionOfAMinute) {
  const auto json =
      self_test(RONDO_PROGRAM " doctor --self-test --quick --ranks 2 --minutes 0.05 --json");
  EXPECT_GE(json["seconds"], 3);
  EXPECT_GE(json["rounds"], 1);
  EXPECT_NE(finding_of(json, "data", "ok"), "") << json.dump(1);
}

// The planted faults are in links, so one type of data shows them.
// Four hosts of one rank, joined by the test's network plugin; rank 3's behaves badly.
std::string with_plugin(const std::string& behaviour) {
  return fmt::format("export NCCL_NET_PLUGIN={}; " RONDO_PROGRAM
                     " run -n 4 --no-prefix --keep-going -- bash -c '"
                     "export NCCL_HOSTID=host$RANK; [ $RANK = 3 ] && export RONDO_TEST_PLUGIN={}; "
                     "exec " RONDO_PROGRAM " doctor --self-test --quick --json'",
                     RONDO_TEST_PLUGIN_FILE, behaviour);
}

// On a busy machine the other links are slower, too: then those of rank 3 get half as much.
TEST(SelfTestProgram, NamesTheRankWhoseLinksHaveATenthOfTheirRate) {
  nlohmann::json json;
  bool is_named = false;
  for (const char* pace : {"pace=30", "pace=15"}) {
    json = self_test(with_plugin(pace));
    is_named = finding_of(json, "links of rank 3", "problem")
                   .starts_with("all 3 links of rank 3 (host host3) to other hosts are slow");
    if (is_named) break;
  }
  EXPECT_TRUE(is_named) << json.dump(1);
  EXPECT_NE(finding_of(json, "data", "ok"), "");
}

TEST(SelfTestProgram, NamesTheRankAndItsLinksOnWhichABitFlips) {
  const auto json = self_test(with_plugin("flip=512"));
  EXPECT_NE(finding_of(json, "data of rank 3", "problem").find("rank 3 (host host3)"),
            std::string::npos)
      << json.dump(1);
  EXPECT_EQ(json["findings"][0]["subject"], "links of rank 3") << "the cause comes first";
  EXPECT_NE(finding_of(json, "links of rank 3", "problem")
                .find("messages on all 3 links of rank 3 (host host3) to other hosts arrived with"),
            std::string::npos);
  for (const auto& link : json["links"])
    EXPECT_EQ(link["wrong_elements"] == 0, link["to"] != 3) << link.dump();
}

TEST(SelfTestProgram, RefusesWhatDoesNotFit) {
  const std::pair<const char*, const char*> bad[] = {
      {"doctor --self-test --hosts 'a b'", "'a b' is not a host's name"},
      {"doctor --self-test --hosts a,--x", "'--x' is not a host's name"},
      {"doctor --minutes 3", "--self-test"},
      {"doctor --quick", "--self-test"},
      {"run -n 2 -- " RONDO_PROGRAM " doctor --self-test --ranks 5",
       "--ranks 5, but the launcher started 2 processes"}};
  for (const auto& [arguments, text] : bad) {
    const ShellResult ran = shell(fmt::format("{} {}", RONDO_PROGRAM, arguments));
    EXPECT_NE(ran.status, 0) << arguments;
    EXPECT_NE(ran.text.find(text), std::string::npos) << arguments << ": " << ran.text;
  }
}

// An agent in ssh's place: it runs the command on this machine, as another host.
TEST(SelfTestProgram, StartsRanksByAnAgent) {
  const test::TemporaryFolder folder;
  const std::string agent = folder.path() + "/agent";
  std::ofstream(agent) << "#!/bin/sh\nNCCL_HOSTID=of-$1\nexport NCCL_HOSTID\nshift\nexec sh -c "
                          "\"$*\"\n";
  const auto json = self_test(fmt::format(
      "chmod +x {0}; env -u RONDO_SECRET " RONDO_PROGRAM
      " doctor --self-test --quick --json --ranks 1 --hosts localhost,127.0.0.1 --agent {0}",
      agent));
  ASSERT_EQ(json["ranks"].size(), 2u);
  EXPECT_EQ(json["ranks"][0]["host"], "of-localhost");
  EXPECT_EQ(json["ranks"][1]["host"], "of-127.0.0.1");
  EXPECT_EQ(json["links"].size(), 1u);
  EXPECT_EQ(json["links"][0]["across_hosts"], true);
}

}  // namespace
}  // namespace rondo::cli
