// What two ends of a link over UCX say of themselves is read back, and nothing else is.
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

}  // namespace
}  // namespace rondo::ucx
