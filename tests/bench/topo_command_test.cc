// rondo topo --channels as words: what it says of machines of tests/topology, and what it refuses.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/bench/shell.h"

namespace {

Said topo(const std::string& machine, const std::string& words) {
  const std::string file = machine.empty() ? "" : " --nccl-xml " RONDO_FIXTURES_DIR "/" + machine;
  return shell(RONDO_PROGRAM " topo" + file + " " + words);
}

TEST(TopoCommand, ShowsTheRingsOfAHost) {
  const Said said = topo("dgx-1v.xml", "--channels");
  EXPECT_EQ(said.status, 0);
  EXPECT_NE(said.text.find("6 channels of 25 GB/s each: 150 GB/s into and out of each GPU; the "
                           "wires allow 156\n"),
            std::string::npos)
      << said.text;
  EXPECT_EQ(std::count(said.text.begin(), said.text.end(), '\n'), 2 + 6);
}

TEST(TopoCommand, ShowsTheWaysThroughEachOfSeveralHosts) {
  const Said said = topo("pcie-8-two-sockets.xml", "--channels --hosts 2 --cross-nic 0 --json");
  ASSERT_EQ(said.status, 0) << said.text;
  const auto json = nlohmann::json::parse(said.text);
  EXPECT_DOUBLE_EQ(json["gbs"], 22);
  EXPECT_DOUBLE_EQ(json["bound_gbs"], 22);
  EXPECT_EQ(json["slowest"], "NUMA node 0 to NUMA node 1");
  ASSERT_EQ(json["channels"].size(), 1u);
  EXPECT_EQ(json["channels"][0]["gpus"].size(), 8u);
  EXPECT_EQ(json["channels"][0]["in"], json["channels"][0]["out"]);
  const Said any = topo("pcie-8-two-sockets.xml", "--channels --hosts 2");
  EXPECT_NE(any.text.find("2 channels of 15.75 GB/s each"), std::string::npos) << any.text;
}

TEST(TopoCommand, DrawsEachChannelInAColourOfItsOwn) {
  const std::string plain = topo("hgx-a100-4.xml", "--dot").text;
  const std::string drawn = topo("hgx-a100-4.xml", "--channels --dot").text;
  const auto lines = [](const std::string& text) {
    return std::count(text.begin(), text.end(), '\n');
  };
  EXPECT_EQ(lines(drawn) - lines(plain), 6 * 4);  // six rings of four hops
  EXPECT_EQ(drawn.substr(0, plain.size() - 2), plain.substr(0, plain.size() - 2));
  EXPECT_TRUE(drawn.ends_with("}\n"));
}

TEST(TopoCommand, SaysWhereNoChannelIs) {
  EXPECT_NE(topo("one-gpu.xml", "--channels").text.find("one GPU alone"), std::string::npos);
  const Said none = topo("cpu-box.xml", "--channels");
  EXPECT_EQ(none.status, 1);
  EXPECT_NE(none.text.find("there is no GPU"), std::string::npos) << none.text;
  EXPECT_EQ(topo("dgx-1v.xml", "--hosts 2").status, 2);
  EXPECT_EQ(topo("dgx-1v.xml", "--channels --hosts 0").status, 2);
  EXPECT_EQ(topo("dgx-1v.xml", "--channels --cross-nic 1").status, 2);
}

}  // namespace
