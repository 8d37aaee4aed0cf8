// SPDX-License-Identifier: Apache-2.0
// Files named by a user: FIFOs, devices and endless files are refused at once, so no read blocks.
#include "base/text_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "collectives/planner/tune_file.h"
#include "tests/support/environment.h"
#include "tests/support/in_child.h"
#include "tests/support/temporary_folder.h"
#include "topology/graph/host_graph.h"
#include "topology/host_topology.h"
#include "topology/small_file.h"

namespace rondo {
namespace {

using test::in_child;
using testing::HasSubstr;

class TextFile : public testing::Test {
 protected:
  TextFile() { EXPECT_EQ(::mkfifo(fifo_.c_str(), 0600), 0); }

  // Runs in a child, because a reader that waits for a writer would not return.
  static std::string refusal(const std::string& path) {
    return in_child([&] {
      const auto text = read_text_file("test file", path, 100);
      return text.ok() ? "read" : text.error().text;
    });
  }

  const test::TemporaryFolder folder_;
  const std::string fifo_ = folder_.path() + "/fifo";
};

TEST_F(TextFile, IsReadWhereItIsRegularAndShortEnough) {
  const std::string text(100, 'x');
  EXPECT_EQ(*read_text_file("test file", folder_.file("whole", text), 100), text);
  EXPECT_EQ(*read_text_file("test file", folder_.file("empty", ""), 100), "");
  EXPECT_EQ(refusal(folder_.file("longer", text + "x")),
            fmt::format("cannot read the test file '{}/longer': it has more than 100 bytes",
                        folder_.path()));
  EXPECT_EQ(*read_start_of_file("test file", folder_.path() + "/longer", 100), text);
}

TEST_F(TextFile, OfTheSystemIsRegularThoughItsSizeIsZero) {
  EXPECT_THAT(*read_text_file("test file", "/proc/self/status", 1 << 20), HasSubstr("Threads:"));
  EXPECT_TRUE(topology::read_number("/proc/sys/kernel/pid_max").has_value());
}

TEST_F(TextFile, IsRefusedWhereItIsSomethingElse) {
  const std::string begin = "cannot read the test file '";
  EXPECT_EQ(refusal(fifo_), begin + fifo_ + "': it is a FIFO; name a regular file");
  EXPECT_EQ(refusal("/dev/zero"), begin + "/dev/zero': it is a device; name a regular file");
  EXPECT_EQ(refusal(folder_.path()),
            begin + folder_.path() + "': it is a folder; name a regular file");
  EXPECT_EQ(refusal("/nowhere/file"), begin + "/nowhere/file': No such file or directory");
}

// Covers all readers of files that variables name, except NCCL_CONF_FILE
// (tests/bench/command_test.cc).
TEST_F(TextFile, OfATopologyOrOfMeasuredCostsMayNotBeAFifo) {
  for (const std::string& path : {fifo_, std::string("/dev/zero")}) {
    EXPECT_THAT(in_child([&]() -> std::string {
                  const auto graph = topology::read_graph_file(path);
                  return graph.ok() ? "read" : graph.error().text;
                }),
                HasSubstr("name a regular file"))
        << path;
    EXPECT_THAT(in_child([&]() -> std::string {
                  topology::DiscoverOptions options;
                  options.xml_path = path;
                  const auto host = topology::discover(options);
                  return host.ok() ? "read" : host.error().text;
                }),
                HasSubstr("name a regular file"))
        << path;
    const test::WithEnvironment variable("RONDO_TUNE_FILE", path);
    EXPECT_EQ(in_child([] { return costs_of_environment().host.measured ? "read" : "priors"; }),
              "priors")
        << path;
  }
}

}  // namespace
}  // namespace rondo
