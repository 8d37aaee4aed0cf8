// SPDX-License-Identifier: Apache-2.0
// A trace survives its file; a damaged file is one error that names it.
#include "collectives/trace/trace_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/support/temporary_folder.h"
#include "tests/unit/collectives/trace/sample_traces.h"

namespace rondo::trace {
namespace {

using testing::HasSubstr;

TEST(TraceFile, HoldsTheWholeTrace) {
  const test::TemporaryFolder folder;
  std::vector<RankTrace> traces = test::sample_traces();
  traces[0].fault = "rank 1 ended";
  traces[0].culprit = 1;
  for (const RankTrace& trace : traces)
    ASSERT_TRUE(write_trace(folder.path() + "/made", trace, "fault").ok());
  const auto read = read_traces(folder.path() + "/made");
  ASSERT_TRUE(read.ok()) << read.error().text;
  ASSERT_EQ(read->size(), traces.size());
  for (std::size_t r = 0; r < traces.size(); ++r)
    EXPECT_EQ(to_json((*read)[r], "end").text(1), to_json(traces[r], "end").text(1));
}

TEST(TraceFile, RefusesWhatNoRankWrites) {
  const std::string good = to_json(test::sample_traces()[0], "end").text(0);
  EXPECT_TRUE(parse_trace(good, "a").ok());
  const auto changed = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    text.replace(text.find(from), from.size(), to);
    const auto parsed = parse_trace(text, "a.json");
    return parsed.ok() ? std::string("no error") : parsed.error().text;
  };
  EXPECT_THAT(changed("AllReduce", "Fly"),
              HasSubstr("'a.json' is not the trace of a rank: 'Fly' is no collective"));
  EXPECT_THAT(changed("rondo-rank-trace-1", "x"), HasSubstr("its format is 'x'"));
  EXPECT_THAT(changed("\"rank\": 0", "\"rank\": 3"), HasSubstr("rank 3 of 3 ranks"));
  EXPECT_THAT(changed("\"entered_ns\": 1000000", "\"entered_ns\": 1e300"), HasSubstr("entered_ns"));
  EXPECT_THAT(changed("\"calls\"", "\"kalls\""), HasSubstr("'calls' is missing"));
  EXPECT_THAT(changed("{", ""), HasSubstr("'a.json' is not the trace of a rank"));
}

TEST(TraceFile, NamesTheVariableThatMakesTraces) {
  const test::TemporaryFolder folder;
  const auto none = read_traces(folder.path());
  ASSERT_FALSE(none.ok());
  EXPECT_THAT(none.error().text, HasSubstr("set RONDO_TRACE=" + folder.path()));
  EXPECT_THAT(read_traces(folder.path() + "/x").error().text, HasSubstr("cannot read the folder"));
}

}  // namespace
}  // namespace rondo::trace
