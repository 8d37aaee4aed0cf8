// SPDX-License-Identifier: Apache-2.0
// What `rondo ps` calls a job: the script and its arguments rather than the interpreter.
#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "collectives/status/inspect.h"

namespace rondo::test {
namespace {

// As in /proc/PID/cmdline: each word ends with NUL.
std::string shown(std::string_view line) {
  std::string words(line);
  for (char& c : words)
    if (c == ' ') c = '\0';
  return command_text(words + '\0');
}

TEST(CommandText, IsTheScriptAndItsArguments) {
  EXPECT_EQ(shown("/opt/venv/bin/python3 -u /home/me/code/train.py --lr 3 --data /data/x"),
            "python3 train.py --lr 3 --data /data/x");
  EXPECT_EQ(shown("/usr/bin/python3.11 -X dev -W error train.py"), "python3.11 train.py");
  EXPECT_EQ(shown("python -m torch.distributed.run a.py"), "python -m torch.distributed.run a.py");
  EXPECT_EQ(shown("python -u -c print(1)"), "python -c print(1)");
  EXPECT_EQ(shown("/bin/bash -e run.sh 4"), "bash run.sh 4");
  EXPECT_EQ(shown("python3"), "python3");
  EXPECT_EQ(shown("python3 -u"), "python3");
}

TEST(CommandText, OfAProgramIsWithoutItsFolder) {
  EXPECT_EQ(shown("build/release/bin/rondo bench all_reduce -b 4"), "rondo bench all_reduce -b 4");
  EXPECT_EQ(shown("/opt/pythonic/server -u x"), "server -u x");
  EXPECT_EQ(shown("/opt/python-server -u /x"), "python-server -u /x");
}

TEST(CommandText, IsShortAndPrintable) {
  EXPECT_EQ(command_text(""), "");
  EXPECT_EQ(shown("a \x1b[2J"), "a \\x1b[2J");
  const std::string text = shown("/bin/a " + std::string(200, 'b'));
  EXPECT_EQ(text.size(), 80u);
  EXPECT_TRUE(text.starts_with("a bbb") && text.ends_with("b..."));
}

}  // namespace
}  // namespace rondo::test
