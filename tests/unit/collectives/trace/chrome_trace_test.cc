// SPDX-License-Identifier: Apache-2.0
// The Chrome trace has a track per rank, a slice per call, and arrows from the late rank.
#include "collectives/trace/trace_file.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>

#include "tests/unit/collectives/trace/sample_traces.h"

namespace rondo::trace {
namespace {

TEST(ChromeTrace, DrawsArrowsFromTheLateRankToThoseThatWaited) {
  const std::vector<TracedComm> comms = comms_of(test::sample_traces());
  const Json document = Json::parse(chrome_trace(comms).text(0));
  std::map<std::string, int> kinds;
  std::set<std::string> names;
  std::map<double, std::set<double>> arrows;  // from rank to ranks
  std::map<double, double> from;              // id to rank
  double last = 0;
  for (const Json& event : document.at("traceEvents").elements()) {
    const std::string& kind = event.at("ph").string();
    ++kinds[kind];
    const double rank = event.at("pid").number();
    if (kind == "M" && event.at("name").string() == "process_name")
      names.insert(event.at("args").at("name").string());
    if (kind == "X") {
      EXPECT_GE(event.at("ts").number(), 0);
      EXPECT_GE(event.at("dur").number(), 0);
      last = std::max(last, event.at("ts").number() + event.at("dur").number());
    }
    if (kind == "s") from[event.at("id").number()] = rank;
    if (kind == "f") arrows[from[event.at("id").number()]].insert(rank);
  }
  EXPECT_EQ(names, (std::set<std::string>{"rank 0 (a, pid 100)", "rank 1 (a, pid 101)",
                                          "rank 2 (a, pid 102)"}));
  EXPECT_EQ(kinds["X"], 3 + 3 + 2 + 2);  // calls 1, 2, 3; the waits of ranks 0 and 2
  EXPECT_EQ(arrows, (std::map<double, std::set<double>>{{1, {0, 2}}}));
  EXPECT_EQ(last, 49'000);  // us from the first entry to that of the call that has not ended
}

TEST(ChromeTrace, OfNothingIsEmpty) {
  const Json document = chrome_trace({});
  EXPECT_TRUE(document.at("traceEvents").elements().empty());
}

}  // namespace
}  // namespace rondo::trace
