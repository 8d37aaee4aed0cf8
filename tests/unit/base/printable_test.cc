// SPDX-License-Identifier: Apache-2.0
#include "base/printable.h"

#include <gtest/gtest.h>

namespace rondo {
namespace {

TEST(Printable, KeepsTextAndEscapesControlCharacters) {
  EXPECT_EQ(printable("rank 3: gr\u00fc\u00df \u65e5\u672c \U0001f600"),
            "rank 3: gr\u00fc\u00df \u65e5\u672c \U0001f600");
  EXPECT_EQ(printable("a\tb\r\n\x1b[31m\x7f"), "a\\tb\\r\\n\\x1b[31m\\x7f");
  EXPECT_EQ(printable(std::string_view("\0", 1)), "\\x00");
  EXPECT_EQ(printable("\xc2\x9b"
                      "31m"),
            "\\xc2\\x9b31m");  // the 8-bit form of ESC [
}

TEST(Printable, EscapesWhatIsNotUtf8) {
  EXPECT_EQ(printable("\x9b"), "\\x9b");
  EXPECT_EQ(printable("\xc3"), "\\xc3");
  EXPECT_EQ(printable("\xc0\x8a"), "\\xc0\\x8a");           // a newline in an overlong encoding
  EXPECT_EQ(printable("\xe0\x80\x8a"), "\\xe0\\x80\\x8a");  // the same, three bytes
  EXPECT_EQ(printable("\xed\xa0\x80"), "\\xed\\xa0\\x80");  // half of a surrogate pair
  EXPECT_EQ(printable("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");
}

TEST(Counted, IsSingularForOneAlone) {
  EXPECT_EQ(counted(0, "process"), "0 processes");
  EXPECT_EQ(counted(1, "process"), "1 process");
  EXPECT_EQ(counted(2, "rank"), "2 ranks");
}

TEST(Printable, IndentsFurtherLines) {
  EXPECT_EQ(printable_lines("first\nsecond\n  third\n"), "first\n second\n  third\n");
  EXPECT_EQ(printable_lines("one\x1b"), "one\\x1b");
}

}  // namespace
}  // namespace rondo
