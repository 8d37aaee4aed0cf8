// SPDX-License-Identifier: Apache-2.0
// The report has the keys and types of NCCL's RAS service. The readers here decide as Ray Train's
// health check and SGLang's detector are described to: from these keys alone.
#include "collectives/status/ras_report.h"

#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <regex>
#include <set>
#include <vector>

namespace rondo::test {
namespace {

using Counts = std::map<std::string, double>;
constexpr const char* kOperations[] = {"Broadcast", "Reduce", "AllGather", "ReduceScatter",
                                       "AllReduce"};

RankView rank_with(int rank, std::uint64_t all_reduces) {
  RankView view;
  view.rank = rank;
  view.pid = 100 + rank;
  view.host = "node1";
  view.address = "10.0.0.1";
  view.counts[0] = all_reduces;
  return view;
}

JobView reported_job(std::vector<RankView> ranks) {
  JobView job;
  CommunicatorView communicator;
  communicator.hash = 0x1f3a;
  communicator.host_hash = 0xa;
  communicator.process_hash = 0xb;
  communicator.size = static_cast<int>(ranks.size());
  communicator.ranks = std::move(ranks);
  job.communicators.push_back(std::move(communicator));
  return job;
}

Json report_of(const JobView& job) { return Json::parse(ras_json(job, {.version = "2.28.9"})); }

// Strict, as a probe that refuses what it does not expect.
void expect_schema(const Json& report) {
  EXPECT_EQ(report.at("nccl_version").string(), "2.28.9");
  EXPECT_EQ(report.at("cuda_runtime_version").number(), -1);
  EXPECT_EQ(report.at("cuda_driver_version").number(), -1);
  EXPECT_TRUE(std::regex_match(report.at("timestamp").string(),
                               std::regex(R"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)")));
  const auto& communicators = report.at("communicators").elements();
  EXPECT_EQ(report.at("communicators_count").number(), static_cast<double>(communicators.size()));
  for (const Json& one : communicators) {
    EXPECT_TRUE(std::regex_match(one.at("hash").string(), std::regex("0x[0-9a-f]+")));
    EXPECT_TRUE(
        std::regex_match(one.at("secondary_hash").string(), std::regex("0x[0-9a-f]+:0x[0-9a-f]+")));
    const auto &ranks = one.at("ranks").elements(), &missing = one.at("missing_ranks").elements();
    EXPECT_EQ(one.at("ranks_count").number(), static_cast<double>(ranks.size()));
    EXPECT_EQ(one.at("missing_ranks_count").number(), static_cast<double>(missing.size()));
    EXPECT_GE(one.at("size").number(), static_cast<double>(ranks.size() + missing.size()));
    std::set<double> seen;
    for (const Json& rank : ranks) {
      EXPECT_TRUE(seen.insert(rank.at("rank").number()).second);
      EXPECT_FALSE(rank.at("host").string().empty());
      for (const char* key : {"pid", "cuda_dev", "nvml_dev"}) (void)rank.at(key).number();
      const double init = rank.at("status").at("init_state").number();
      EXPECT_TRUE(init == 0 || init == 7) << init;  // 7: ncclInProgress
      (void)rank.at("status").at("async_error").number();
      for (const char* key : {"finalize_called", "destroy_flag", "abort_flag"})
        EXPECT_TRUE(rank.at("status").at(key).text(0) == "true" ||
                    rank.at("status").at(key).text(0) == "false");
      for (const char* operation : kOperations)
        EXPECT_GE(rank.at("collective_counts").at(operation).number(), 0);
    }
    for (const Json& rank : missing) {
      EXPECT_TRUE(seen.insert(rank.at("rank").number()).second);
      for (const char* key : {"pid", "cuda_dev", "nvml_dev"}) (void)rank.at(key).number();
      (void)rank.at("host").string();
      for (const char* key : {"unresponsive", "considered_dead"})
        EXPECT_TRUE(rank.at("status").at(key).text(0) == "true" ||
                    rank.at("status").at(key).text(0) == "false");
    }
  }
  (void)report.at("ras").at("collection_time_sec").number();
  (void)report.at("ras").at("timeouts_count").number();
}

bool flag(const Json& rank, const char* name) {
  return rank.at("status").at(name).text(0) == "true";
}

// Ray Train: a communicator hangs if the counts of its ranks differ, all its ranks are running, and
// no count moves between two reports.
std::set<std::string> hung_by_ray(const Json& first, const Json& second) {
  const auto counts_of = [](const Json& report) {
    std::map<std::string, std::map<double, Counts>> all;
    for (const Json& communicator : report.at("communicators").elements())
      for (const Json& rank : communicator.at("ranks").elements())
        for (const char* operation : kOperations)
          all[communicator.at("hash").string()][rank.at("rank").number()][operation] =
              rank.at("collective_counts").at(operation).number();
    return all;
  };
  std::set<std::string> hung;
  const auto before = counts_of(first), after = counts_of(second);
  for (const Json& communicator : second.at("communicators").elements()) {
    const std::string& hash = communicator.at("hash").string();
    bool running = true;
    for (const Json& rank : communicator.at("ranks").elements())
      running &= !flag(rank, "abort_flag") && !flag(rank, "finalize_called") &&
                 !flag(rank, "destroy_flag") && rank.at("status").at("init_state").number() == 0;
    std::set<Counts> different;
    for (const auto& [rank, counts] : after.at(hash)) different.insert(counts);
    if (running && different.size() > 1 && before.count(hash) > 0 &&
        before.at(hash) == after.at(hash))
      hung.insert(hash);
  }
  return hung;
}

// SGLang: the state of a communicator, the worst that applies.
std::string state_by_sglang(const Json& report) {
  const Json& communicator = report.at("communicators").elements().at(0);
  for (const Json& rank : communicator.at("missing_ranks").elements())
    if (flag(rank, "considered_dead")) return "DEAD";
  for (const Json& rank : communicator.at("ranks").elements())
    if (rank.at("status").at("async_error").number() != 0 || flag(rank, "abort_flag") ||
        flag(rank, "finalize_called") || flag(rank, "destroy_flag"))
      return "ERROR";
  return communicator.at("missing_ranks").elements().empty() ? "OK" : "SUSPECT";
}

TEST(RasReport, HasTheKeysAndTypesThatReadersNeed) {
  RankView silent = rank_with(1, 3), dead = rank_with(2, 3), faulted = rank_with(3, 3);
  silent.state = "silent";
  silent.pid = 0;
  dead.state = "ended";
  faulted.faulted = true;
  faulted.fault_status = 6;
  expect_schema(report_of(reported_job({rank_with(0, 4), silent, dead, faulted})));
  expect_schema(report_of(JobView()));
}

TEST(RasReport, LetsRaySeeAHangAndNoneInAJobThatMakesProgress) {
  const Json hung = report_of(reported_job({rank_with(0, 4), rank_with(1, 3)}));
  EXPECT_EQ(hung_by_ray(hung, hung), std::set<std::string>{"0x1f3a"});
  const Json moved = report_of(reported_job({rank_with(0, 5), rank_with(1, 4)}));
  EXPECT_TRUE(hung_by_ray(hung, moved).empty());
  const Json equal = report_of(reported_job({rank_with(0, 4), rank_with(1, 4)}));
  EXPECT_TRUE(hung_by_ray(equal, equal).empty());
}

TEST(RasReport, LetsSglangSeparateDeathErrorAndSilence) {
  EXPECT_EQ(state_by_sglang(report_of(reported_job({rank_with(0, 4), rank_with(1, 4)}))), "OK");
  RankView other = rank_with(1, 4);
  other.state = "silent";
  EXPECT_EQ(state_by_sglang(report_of(reported_job({rank_with(0, 4), other}))), "SUSPECT");
  other.state = "ended";
  EXPECT_EQ(state_by_sglang(report_of(reported_job({rank_with(0, 4), other}))), "DEAD");
  other.state = "running";
  other.fault_status = 8;
  EXPECT_EQ(state_by_sglang(report_of(reported_job({rank_with(0, 4), other}))), "ERROR");
}

// NCCL reports no error in a hang that is equal on all ranks.
TEST(RasReport, NamesWhomTheJobWaitsForBesideNcclsKeys) {
  RankView waiting = rank_with(0, 4), late = rank_with(1, 4);
  waiting.call = 2;
  waiting.waits_for = 1;
  waiting.waits_seconds = 3;
  waiting.waits_in = "AllReduce(count 4, float32, sum)";
  late.call = 1;
  const JobView job = reported_job({waiting, late});
  const Json report = report_of(job);
  const Json& blamed = report.at("rondo").at("blamed").elements().at(0);
  EXPECT_EQ(blamed.at("rank").number(), 1);
  EXPECT_EQ(blamed.at("kind").string(), "not_entered");
  const Json& waits = report.at("rondo").at("waits").elements().at(0);
  EXPECT_EQ(waits.at("rank").number(), 0);
  EXPECT_EQ(waits.at("waits_for").number(), 1);
  EXPECT_EQ(waits.at("waits_seconds").number(), 3);
  const std::string text = ras_text(job, {.version = "2.28.9"}, false);
  EXPECT_NE(text.find("rank 1 (pid 101 on node1) has not entered call 2"), std::string::npos)
      << text;
  EXPECT_NE(text.find("RUNNING"), std::string::npos) << text;
}

TEST(RasReport, ShowsRanksThatJoinAndThoseThatAreMissing) {
  RankView joining = rank_with(0, 0);
  joining.state = "joining";
  const JobView job = reported_job({joining, {.rank = 1, .state = "not_joined"}});
  const Json report = report_of(job);
  expect_schema(report);
  const Json& one = report.at("communicators").elements()[0];
  EXPECT_EQ(one.at("ranks").elements()[0].at("status").at("init_state").number(), 7);
  EXPECT_EQ(one.at("missing_ranks").elements()[0].at("status").text(-1),
            R"({"unresponsive":false,"considered_dead":false})");
  EXPECT_NE(ras_text(job, {}, false).find(" INIT "), std::string::npos);
}

TEST(RasDiagnostics, NameTheSettingsThatDiffer) {
  JobView job;
  job.processes.push_back({71, 1, "a", "", "", {{"NCCL_ALGO", "ring"}, {"NCCL_PROTO", "LL"}}});
  job.processes.push_back({72, 2, "a", "", "", {{"NCCL_ALGO", "ring"}, {"NCCL_PROTO", "LL"}}});
  EXPECT_EQ(ras_diagnostics(job),
            "a:71 NCCL DIAG [OK] equal settings of 2 variables in 2 processes\n");
  job.processes.push_back({73, 3, "b", "", "", {{"NCCL_ALGO", "ring"}}});
  EXPECT_EQ(ras_diagnostics(job),
            "a:71 NCCL DIAG [INFO] NCCL_PROTO is LL here and in 1 other process\n"
            "b:73 NCCL DIAG [INFO] NCCL_PROTO is unset here\n");
}

}  // namespace
}  // namespace rondo::test
