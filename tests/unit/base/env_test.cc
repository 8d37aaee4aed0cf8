// SPDX-License-Identifier: Apache-2.0
#include "base/env.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <string>

namespace rondo::env {
namespace {

TEST(Env, TheTableIsSortedWithoutDuplicatesAndEveryRowHasHelp) {
  const auto rows = all();
  for (std::size_t i = 0; i < rows.size(); ++i) {
    EXPECT_FALSE(rows[i].help.empty()) << rows[i].name;
    EXPECT_TRUE(rows[i].name.starts_with("NCCL_") || rows[i].name.starts_with("RONDO_"));
  }
}

TEST(Env, BytesTakeSuffixesAndRefuseTheRest) {
  EXPECT_EQ(parse_bytes("4M"), 4 << 20);
  EXPECT_EQ(parse_bytes("16k"), 16 << 10);
  EXPECT_EQ(parse_bytes("2GB"), 2LL << 30);
  EXPECT_EQ(parse_bytes("-1"), -1);
  EXPECT_FALSE(parse_bytes(""));
  EXPECT_FALSE(parse_bytes("4X"));
  EXPECT_FALSE(parse_bytes("99999999999999999999"));
  EXPECT_FALSE(parse_bytes("9999999999999G"));
}

TEST(Env, WholeNumbersAreDecimalOrHexadecimal) {
  for (const auto& [text, number] : std::map<std::string, std::int64_t>{
           {"64", 64}, {"-1", -1}, {"4K", 4096}, {"0x1f", 31}, {"0XffffffffFF", 0xff'ffff'ffff}}) {
    setenv("NCCL_MNNVL_UUID", text.c_str(), 1);
    EXPECT_EQ(get_int("NCCL_MNNVL_UUID"), number) << text;
  }
  for (const char* wrong : {"0x", "0x-1", "0x1g", "0x1ffffffffffffffff", "1f"}) {
    setenv("NCCL_MNNVL_UUID", wrong, 1);
    EXPECT_EQ(get_int("NCCL_MNNVL_UUID"), -1) << wrong;
  }
  unsetenv("NCCL_MNNVL_UUID");
}

TEST(Env, AValueThatDoesNotParseGivesTheDefault) {
  setenv("RONDO_TIMEOUT", "soon", 1);
  EXPECT_EQ(get_double("RONDO_TIMEOUT"), 600.0);
  setenv("RONDO_TIMEOUT", "0.25", 1);
  EXPECT_EQ(get_double("RONDO_TIMEOUT"), 0.25);
  unsetenv("RONDO_TIMEOUT");
}

}  // namespace
}  // namespace rondo::env
