// SPDX-License-Identifier: Apache-2.0
// The whole benchmark over the test's own backend: table, reports, exit codes.
#include "bench/sweep.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "bench/options.h"
#include "tests/bench/fake_backend.h"
#include "tests/support/temporary_folder.h"

namespace rondo::bench {
namespace {

struct Outcome {
  int code;
  std::string text;
  std::vector<std::vector<std::string>> rows;  // fields
};

Options small(Kind kind, int ranks) {
  Options options;
  options.kind = kind;
  options.program = std::string(info(kind).name) + "_perf";
  options.threads = ranks;
  options.min_bytes = 1024, options.max_bytes = 16384, options.step_factor = 4;
  options.iterations = 6, options.warmup = 1;
  return options;
}

Outcome run(const Options& options, std::shared_ptr<FakeWorld> world) {
  std::FILE* out = std::tmpfile();
  const rondo_launch_t alone{0, 1, -1, -1, "", 0};
  Outcome outcome;
  outcome.code = run_process({.options = options,
                              .launch = alone,
                              .make_backend = fake_backends(std::move(world)),
                              .out = out,
                              .arguments = {"test"}});
  std::rewind(out);
  for (int c; (c = std::fgetc(out)) != EOF;) outcome.text.push_back(static_cast<char>(c));
  std::fclose(out);
  std::istringstream lines(outcome.text);
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line[0] == '#') continue;
    std::istringstream words(line);
    outcome.rows.emplace_back(std::istream_iterator<std::string>(words),
                              std::istream_iterator<std::string>());
  }
  return outcome;
}

Outcome run(const Options& options) {
  return run(options, std::make_shared<FakeWorld>(options.threads));
}

std::string file_text(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

class Scratch : public testing::Test {
 protected:
  std::string path(const std::string& file) const { return folder_.path() + "/" + file; }
  const test::TemporaryFolder folder_;
};

TEST(BenchTable, HasNcclTestsThirteenFieldsWhereItIsPlain) {
  Options options = small(Kind::kAllReduce, 4);
  options.plain = true;
  const Outcome outcome = run(options);
  EXPECT_EQ(outcome.code, kOk);
  ASSERT_EQ(outcome.rows.size(), 3u);
  const char* sizes[] = {"1024", "4096", "16384"};
  for (std::size_t i = 0; i < 3; ++i) {
    const auto& fields = outcome.rows[i];
    ASSERT_EQ(fields.size(), 13u);
    EXPECT_EQ(fields[0], sizes[i]);
    EXPECT_EQ(std::stoul(fields[1]) * 4, std::stoul(fields[0]));
    EXPECT_EQ(fields[2], "float");
    EXPECT_EQ(fields[3], "sum");
    EXPECT_EQ(fields[4], "-1");
    EXPECT_EQ(fields[8], "0");
    EXPECT_EQ(fields[12], "0");
  }
  EXPECT_NE(outcome.text.find("# Out of bounds values : 0 OK\n"), std::string::npos);
  EXPECT_NE(outcome.text.find("# Avg bus bandwidth    : "), std::string::npos);
  EXPECT_NE(outcome.text.find("# Collective test starting: all_reduce_perf\n"), std::string::npos);
  EXPECT_NE(outcome.text.find("# Collective test concluded: all_reduce_perf\n"), std::string::npos);
}

TEST(BenchTable, FitsInAHundredColumns) {
  Options options = small(Kind::kAllReduce, 2);
  const Outcome outcome = run(options);
  EXPECT_EQ(outcome.code, kOk) << outcome.text;
  std::istringstream lines(outcome.text);
  std::string heading;
  for (std::string line; std::getline(lines, line);) {
    if (line.find("algbw") != std::string::npos) heading = line;
    if (line.find(" float ") != std::string::npos || line.find("busbw") != std::string::npos) {
      EXPECT_EQ(line.size(), 100u) << line;
    }
  }
  EXPECT_NE(heading.find("size"), std::string::npos);
  ASSERT_EQ(outcome.rows.size(), 3u);
  EXPECT_EQ(outcome.rows[0].size(), 13u);
}

// NVIDIA's scripts read version 3 of nccl-tests' file, with the time of each iteration.
TEST_F(Scratch, NcclTestsJsonHasTimesAndOverwritesNoFile) {
  Options options = small(Kind::kAllReduce, 2);
  options.nccl_json = path("results.json");
  std::ofstream(options.nccl_json) << "mine";
  ASSERT_EQ(run(options).code, kOk);
  ASSERT_EQ(run(options).code, kOk);
  EXPECT_EQ(file_text(options.nccl_json), "mine");
  for (const char* number : {".0", ".1"}) {
    const auto json = nlohmann::json::parse(file_text(options.nccl_json + number));
    EXPECT_EQ(json["version"], 3);
    ASSERT_EQ(json["results"].size(), 3u);
    for (const auto& row : json["results"])
      for (const char* side : {"out_of_place", "in_place"}) {
        const auto& times = row[std::string(side) + "_per_iter"];
        EXPECT_EQ(times["times_us"].size(), row["actual_iterations"].get<std::size_t>());
        EXPECT_LE(times["min_us"].get<double>(), times["p50_us"].get<double>());
        EXPECT_TRUE(times.contains("cv_pct") && row[side].contains("bus_bw"));
      }
  }
  EXPECT_FALSE(std::filesystem::exists(options.nccl_json + ".2"));
}

TEST(BenchTable, PrintsNotAvailableForTheSideThatDoesNotExist) {
  const Outcome outcome = run(small(Kind::kAllToAll, 2));
  EXPECT_EQ(outcome.code, kOk);
  ASSERT_EQ(outcome.rows.size(), 3u);
  for (int field = 9; field < 13; ++field) EXPECT_EQ(outcome.rows[0][field], "N/A");
}

TEST(BenchTable, PrintsPercentilesSlowestRankAndPlanAfterThem) {
  Options options = small(Kind::kAllReduce, 2);
  options.extended = true;
  const Outcome outcome = run(options);
  ASSERT_EQ(outcome.rows.size(), 3u);
  const auto& fields = outcome.rows[0];
  ASSERT_EQ(fields.size(), 19u);  // 13 + median p95 p99 slowest + "fake plan"
  EXPECT_LE(std::stod(fields[13]), std::stod(fields[14]));
  EXPECT_LE(std::stod(fields[14]), std::stod(fields[15]));
  EXPECT_EQ(fields[17] + " " + fields[18], "fake plan");
}

// Recomputes every collective's bandwidth columns from time and size, by the published formulas.
class BenchArithmetic : public Scratch, public testing::WithParamInterface<Kind> {};
TEST_P(BenchArithmetic, OfBandwidthsFollowsFromTimeAndSize) {
  const int ranks = 4;
  Options options = small(GetParam(), ranks);
  options.json = path("a.json"), options.csv = path("a.csv");
  const Outcome outcome = run(options);
  ASSERT_EQ(outcome.code, kOk) << outcome.text;
  const auto json = nlohmann::json::parse(file_text(options.json));
  ASSERT_EQ(json["results"].size(), 3u);
  const double n = ranks;
  double bus = 1, moved = 1;
  switch (GetParam()) {
    case Kind::kAllReduce:
      bus = 2 * (n - 1) / n;
      break;
    case Kind::kHyperCube:
      moved = (n - 1) / n;
      break;
    case Kind::kBroadcast:
    case Kind::kReduce:
    case Kind::kSendRecv:
      break;
    default:
      bus = (n - 1) / n;
  }
  int measurements = 0;
  double sum = 0;
  for (std::size_t i = 0; i < 3; ++i) {
    const auto& row = json["results"][i];
    EXPECT_EQ(outcome.rows[i][0], std::to_string(row["size"].get<std::size_t>()));
    for (const char* name : {"out_of_place", "in_place"}) {
      const auto& side = row[name];
      if (side.is_null()) continue;
      ++measurements;
      const double gbs = row["size"].get<double>() * moved / (side["time"].get<double>() * 1e3);
      EXPECT_NEAR(side["alg_bw"].get<double>(), gbs, 1e-9 * gbs);
      EXPECT_NEAR(side["bus_bw"].get<double>(), gbs * bus, 1e-9 * gbs);
      EXPECT_EQ(side["nwrong"], 0);
      sum += side["bus_bw"].get<double>();
    }
  }
  EXPECT_NEAR(json["average_bus_bandwidth"]["bandwidth"].get<double>(), sum / measurements, 1e-9);
  EXPECT_TRUE(json["out_of_bounds"]["okay"].is_boolean());
  EXPECT_TRUE(json["config"]["validation"].is_boolean());
  const std::string csv = file_text(options.csv);
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), measurements + 1);
  const auto commas = [](const std::string& line) {
    return std::count(line.begin(), line.end(), ',');
  };
  std::istringstream lines(csv);
  std::string header;
  std::getline(lines, header);
  for (std::string line; std::getline(lines, line);) EXPECT_EQ(commas(line), commas(header));
}
INSTANTIATE_TEST_SUITE_P(Kinds, BenchArithmetic,
                         testing::Values(Kind::kAllReduce, Kind::kAllGather, Kind::kReduceScatter,
                                         Kind::kBroadcast, Kind::kReduce, Kind::kAllToAll,
                                         Kind::kGather, Kind::kScatter, Kind::kSendRecv,
                                         Kind::kHyperCube, Kind::kAllToAllV, Kind::kAllGatherV,
                                         Kind::kReduceScatterV, Kind::kGatherV, Kind::kScatterV),
                         [](const auto& param) {
                           return std::string(bench::info(param.param).name);
                         });

TEST(BenchCheck, FindsOneWrongElementAndNamesTheRank) {
  auto world = std::make_shared<FakeWorld>(3);
  world->after = [](int rank, int, const Call& call) {
    if (rank == 2 && call.layout->bytes == 4096) static_cast<float*>(call.recv)[5] += 1;
  };
  Options options = small(Kind::kAllReduce, 3);
  const Outcome outcome = run(options, world);
  EXPECT_EQ(outcome.code, kWrongResult);
  ASSERT_EQ(outcome.rows.size(), 3u);
  EXPECT_EQ(outcome.rows[0][8], "0");
  EXPECT_NE(outcome.rows[1][8], "0");
  EXPECT_NE(outcome.rows[1][12], "0");
  EXPECT_EQ(outcome.rows[2][8], "0");
  EXPECT_NE(outcome.text.find("rank 2: element 5 is "), std::string::npos) << outcome.text;
  EXPECT_NE(outcome.text.find(" FAILED\n"), std::string::npos);
}

TEST(BenchCheck, FindsBytesWrittenBeyondTheBuffer) {
  auto world = std::make_shared<FakeWorld>(2);
  world->after = [](int rank, int, const Call& call) {
    if (rank == 1) static_cast<float*>(call.recv)[call.layout->recv_count] = 1;
  };
  const Outcome outcome = run(small(Kind::kAllGather, 2), world);
  EXPECT_EQ(outcome.code, kWrongResult);
  EXPECT_NE(outcome.text.find("beyond the buffers"), std::string::npos) << outcome.text;
}

TEST(BenchCheck, FindsASendBufferThatWasChanged) {
  auto world = std::make_shared<FakeWorld>(2);
  world->after = [](int rank, int, const Call& call) {
    if (rank == 0 && call.send != call.recv)
      static_cast<float*>(const_cast<void*>(call.send))[1] = -7;
  };
  const Outcome outcome = run(small(Kind::kAllReduce, 2), world);
  EXPECT_EQ(outcome.code, kWrongResult);
  EXPECT_NE(outcome.text.find("the send buffer was changed"), std::string::npos) << outcome.text;
}

// Calls of a measurement: 1 warm-up, 6 timed (numbers 1 to 6), 1 checked.
TEST(BenchCheck, SeesTheLastTimedIteration) {
  auto world = std::make_shared<FakeWorld>(2);
  world->after = [](int rank, int number, const Call& call) {
    if (rank == 1 && number == 6) static_cast<float*>(call.recv)[0] += 1;
  };
  EXPECT_EQ(run(small(Kind::kAllReduce, 2), world).code, kWrongResult);
}

TEST(BenchCheck, EverySeesEachTimedIteration) {
  for (int bad = 1; bad <= 6; ++bad) {
    auto world = std::make_shared<FakeWorld>(2);
    world->after = [bad](int rank, int number, const Call& call) {
      if (rank == 0 && number == bad) static_cast<float*>(call.recv)[3] += 1;
    };
    Options options = small(Kind::kAllReduce, 2);
    options.check = kCheckEvery;
    EXPECT_EQ(run(options, world).code, kWrongResult) << "iteration " << bad;
  }
}

TEST(BenchCheck, OffMeansNotAvailable) {
  Options options = small(Kind::kAllReduce, 2);
  options.check = 0;
  const Outcome outcome = run(options);
  EXPECT_EQ(outcome.code, kOk);
  EXPECT_EQ(outcome.rows[0][8], "N/A");
}

TEST(BenchExit, FailingCallEndsWithItsSentenceAndNoHalfRow) {
  auto world = std::make_shared<FakeWorld>(2);
  world->fail = [](int rank, int number) {
    return rank == 1 && number == 12 ? ncclSystemError : ncclSuccess;
  };
  const Outcome outcome = run(small(Kind::kAllReduce, 2), world);
  EXPECT_EQ(outcome.code, kLibraryError);
  for (const auto& row : outcome.rows) EXPECT_EQ(row.size(), 19u);
  EXPECT_LT(outcome.rows.size(), 3u);
  EXPECT_NE(outcome.text.find("# error: rank 1: calling all_reduce of 1024 bytes"),
            std::string::npos)
      << outcome.text;
  EXPECT_NE(outcome.text.find("# Out of bounds values : 0 INCOMPLETE\n"), std::string::npos);
  EXPECT_NE(outcome.text.find("the test's own error"), std::string::npos);
}

TEST(BenchExit, TimeoutAbortsCallsThatHang) {
  auto world = std::make_shared<FakeWorld>(1);
  world->hang = [](int, const std::function<bool()>& aborted) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::minutes(5);
    while (!aborted() && std::chrono::steady_clock::now() < until)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  };
  Options options = small(Kind::kAllReduce, 1);
  options.timeout = 0.1;
  const Outcome outcome = run(options, world);
  EXPECT_EQ(outcome.code, kTimedOut);
  // The measurement is named, not the error of the communicators that the timeout has aborted.
  EXPECT_NE(outcome.text.find("# error: no result within -T 0.1 s for 1024 B float sum"),
            std::string::npos)
      << outcome.text;
  EXPECT_EQ(outcome.text.find("destroyed"), std::string::npos) << outcome.text;
}

TEST(BenchExit, RefusesWhatCannotWork) {
  EXPECT_EQ(run(small(Kind::kHyperCube, 3)).code, kInvalidUse);
  Options options = small(Kind::kBroadcast, 2);
  options.root = 2;
  EXPECT_EQ(run(options).code, kInvalidUse);
  options = small(Kind::kAllReduce, 1);
  options.min_bytes = options.max_bytes = std::size_t{1} << 46;
  EXPECT_EQ(run(options).code, kInvalidUse);
}

TEST(BenchExit, FloorOfBusBandwidth) {
  setenv("NCCL_TESTS_MIN_BW", "1e9", 1);
  const Outcome outcome = run(small(Kind::kAllReduce, 2));
  unsetenv("NCCL_TESTS_MIN_BW");
  EXPECT_EQ(outcome.code, kWrongResult);
  EXPECT_NE(outcome.text.find(" FAILED\n"), std::string::npos);
}

class BenchBaseline : public Scratch {
 protected:
  // Writes a baseline in which every median is `us`.
  void baseline(double us) {
    Options options = small(Kind::kAllReduce, 2);
    options.json = path("a.json");
    ASSERT_EQ(run(options).code, kOk);
    auto json = nlohmann::json::parse(file_text(path("a.json")));
    for (auto& row : json["results"])
      for (const char* side : {"out_of_place", "in_place"}) row[side]["median_us"] = us;
    std::ofstream(path("b.json")) << json;
  }
  Outcome against() {
    Options options = small(Kind::kAllReduce, 2);
    options.baseline = path("b.json");
    return run(options);
  }
};

TEST_F(BenchBaseline, FailsWhereItWasMuchFaster) {
  baseline(1e-9);
  const Outcome outcome = against();
  EXPECT_EQ(outcome.code, kWrongResult);
  EXPECT_NE(outcome.text.find("6 of 6 measurements slower"), std::string::npos) << outcome.text;
}

TEST_F(BenchBaseline, PassesWhereItWasMuchSlower) {
  baseline(1e12);
  EXPECT_EQ(against().code, kOk);
}

TEST_F(BenchBaseline, RefusesAFileWithoutTheseMeasurements) {
  baseline(1e12);
  Options options = small(Kind::kAllGather, 2);
  options.baseline = path("b.json");
  EXPECT_EQ(run(options).code, kInvalidUse);
  std::ofstream(path("b.json")) << "no json";
  EXPECT_EQ(against().code, kInvalidUse);
}

TEST(BenchSummary, PercentilesAreOfTheNearestRank) {
  std::vector<double> samples;
  for (int i = 100; i >= 1; --i) samples.push_back(i);
  const Summary summary = summarise(samples);
  EXPECT_EQ(summary.p50, 50);
  EXPECT_EQ(summary.p95, 95);
  EXPECT_EQ(summary.p99, 99);
  EXPECT_EQ(summary.min, 1);
  EXPECT_EQ(summary.max, 100);
  EXPECT_DOUBLE_EQ(summary.mean, 50.5);
  EXPECT_EQ(summarise({7}).p99, 7);
  EXPECT_EQ(summarise({}).p50, 0);
}

}  // namespace
}  // namespace rondo::bench
