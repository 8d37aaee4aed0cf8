// SPDX-License-Identifier: Apache-2.0
// The machines of tests/topology, as graphs.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/fixture_file.h"
#include "topology/graph/nccl_xml.h"

namespace rondo::test {

inline const std::vector<std::string>& fixture_names() {
  static const std::vector<std::string> names = {
      "cloud-vm",    "cpu-box",    "dgx-1v",  "dgx-a100",        "dgx-b200",          "dgx-h100",
      "gb200-nvl72", "hgx-a100-4", "one-gpu", "pcie-4-switches", "pcie-8-two-sockets"};
  return names;
}

inline topology::Graph fixture(const std::string& name) {
  const std::string path = fixture_file(name);
  auto parsed = topology::read_nccl_xml(path);
  if (!parsed) throw std::runtime_error(parsed.error().text);
  EXPECT_TRUE(parsed->not_understood.empty()) << path << ": " << parsed->not_understood.front();
  return std::move(parsed->graph);
}

}  // namespace rondo::test
