// SPDX-License-Identifier: Apache-2.0
#include "base/json.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace rondo {
namespace {

TEST(Json, WritesEveryKindAndKeepsTheOrderOfKeys) {
  Json json{{"z", 1}, {"a", nullptr}, {"text", "x\"y"}, {"yes", true}, {"half", 0.5}};
  json["list"] = std::vector<int>{1, 2};
  json["none"] = Json::array();
  json["rows"].push_back({{"bytes", std::numeric_limits<std::uint64_t>::max()}, {"lag", -3}});
  EXPECT_EQ(json.text(1), R"({
 "z": 1,
 "a": null,
 "text": "x\"y",
 "yes": true,
 "half": 0.5,
 "list": [
  1,
  2
 ],
 "none": [],
 "rows": [
  {
   "bytes": 18446744073709551615,
   "lag": -3
  }
 ]
})");
}

TEST(Json, ReplacesWhatIsNotUtf8) { EXPECT_EQ(Json("a\xff").text(0), "\"a\xef\xbf\xbd\""); }

TEST(Json, ReadsWhatItWrote) {
  const Json json{{"name", "ring"}, {"rows", Json::array()}, {"inner", {{"us", 1.25}}}};
  const Json read = Json::parse(json.text(2));
  EXPECT_EQ(read.text(2), json.text(2));
  EXPECT_EQ(read.at("name").string(), "ring");
  EXPECT_TRUE(read.at("rows").elements().empty());
  EXPECT_TRUE(read.holds_object("inner"));
  EXPECT_FALSE(read.holds_object("name"));
  EXPECT_FALSE(read.holds_object("absent"));
  EXPECT_EQ(read.at("inner").at("us").number(), 1.25);
}

TEST(Json, RefusesWhatIsNotThere) {
  const Json json{{"name", "ring"}};
  EXPECT_THROW(json.at("names"), JsonError);
  EXPECT_THROW(json.at("name").number(), JsonError);
  EXPECT_THROW(json.at("name").elements(), JsonError);
  EXPECT_THROW(json.string(), JsonError);
  EXPECT_THROW(Json::parse("{\"a\": "), JsonError);
}

// Files are untrusted input: their nesting must not decide the depth of the stack.
TEST(Json, RefusesDeepNesting) {
  const auto nested = [](int levels) {
    const auto count = static_cast<std::size_t>(levels);
    return std::string(count, '[') + std::string(count, ']');
  };
  EXPECT_EQ(Json::parse(nested(60)).elements().size(), 1u);
  EXPECT_THROW(Json::parse(nested(100)), JsonError);
  EXPECT_THROW(Json::parse(std::string(1 << 20, '[')), JsonError);
}

}  // namespace
}  // namespace rondo
