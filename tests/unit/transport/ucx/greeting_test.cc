// SPDX-License-Identifier: Apache-2.0
// The greeting of a UCX link: decoding returns what was encoded, and refuses everything else.
#include "transport/ucx/greeting.h"

#include "tests/unit/transport/net/turns.h"

namespace rondo::ucx {
namespace {

TEST(UcxGreeting, IsReadBackAndNothingElseIs) {
  const Greeting greeting{0x123456789abcdef0, 7, test::pattern(300, 1)};
  const Bytes bytes = serialize(greeting);
  EXPECT_EQ(parse_greeting(bytes).value(), greeting);
  for (std::size_t length = 0; length < bytes.size(); ++length)
    EXPECT_FALSE(parse_greeting(ByteSpan(bytes).first(length)).ok()) << length;
  Bytes longer = bytes;
  longer.push_back({});
  EXPECT_FALSE(parse_greeting(longer).ok());
  Bytes other = bytes;
  other[0] ^= std::byte{1};
  EXPECT_FALSE(parse_greeting(other).ok());
  EXPECT_FALSE(parse_greeting(serialize({1, 2, {}})).ok()) << "without an address";
}

TEST(UcxGreeting, MayBeARefusalWithItsReason) {
  const Bytes refusal = serialize_refusal("Destination is unreachable\x1b");
  const auto received = parse_greeting(refusal);
  EXPECT_EQ(received.code(), StatusCode::kSystemError);
  EXPECT_NE(received.error().text.find("Destination is unreachable\\x1b"), std::string::npos);
  for (std::size_t length = 0; length < refusal.size(); ++length)
    EXPECT_EQ(parse_greeting(ByteSpan(refusal).first(length)).code(), StatusCode::kRemoteError);
  const std::string longest(kMaxReason + 100, 'x');
  EXPECT_EQ(parse_greeting(serialize_refusal(longest)).code(), StatusCode::kSystemError);
}

}  // namespace
}  // namespace rondo::ucx
