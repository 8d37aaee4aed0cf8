// SPDX-License-Identifier: Apache-2.0
// SHA-256, HMAC and the keys derived from them.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "transport/auth/hmac.h"

namespace rondo::auth {
namespace {

std::string hex(const Digest& digest) {
  std::string text;
  for (const std::byte byte : digest) text += fmt::format("{:02x}", std::to_integer<int>(byte));
  return text;
}

// RFC 4231, test cases 2 and 6.
TEST(Hmac, GivesTheDigestsOfTheStandard) {
  const auto bytes = [](std::string_view text) { return std::as_bytes(std::span(text)); };
  EXPECT_EQ(hex(hmac_sha256(bytes("Jefe"), {bytes("what do ya want "), bytes("for nothing?")})),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  const std::vector<std::byte> long_key(131, std::byte{0xaa});
  EXPECT_EQ(
      hex(hmac_sha256(long_key, {bytes("Test Using Larger Than Block-Size Key - Hash Key First")})),
      "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

TEST(Derive, DependsOnSecretLabelAndContext) {
  const auto bytes = [](std::string_view text) { return std::as_bytes(std::span(text)); };
  const Digest secret = random_digest();
  const Digest key = derive(secret, "key", bytes("context"));
  EXPECT_EQ(key, derive(secret, "key", bytes("context")));
  EXPECT_NE(key, derive(random_digest(), "key", bytes("context")));
  EXPECT_NE(key, derive(secret, "kez", bytes("context")));
  EXPECT_NE(key, derive(secret, "keyc", bytes("ontext")));
  EXPECT_NE(key, derive(secret, "key"));
}

}  // namespace
}  // namespace rondo::auth
