// SPDX-License-Identifier: Apache-2.0
// The greeting of a plugin link: decoding returns what was encoded, and refuses everything else.
#include "transport/plugin/connection.h"

#include "tests/unit/transport/net/turns.h"

namespace rondo::plugin {
namespace {

TEST(PluginGreeting, IsReadBackAndNothingElseIs) {
  Greeting greeting{0x123456789abcdef0, {}};
  for (std::size_t i = 0; i < greeting.handle.size(); ++i)
    greeting.handle[i] = static_cast<std::byte>(3 * i + 1);
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
}

}  // namespace
}  // namespace rondo::plugin
