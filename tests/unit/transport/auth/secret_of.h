// SPDX-License-Identifier: Apache-2.0
// secret_of(number): a secret for a test. Different numbers give secrets that differ in the last
// byte only, so all of them has to count.
#pragma once

#include "transport/auth/hmac.h"

namespace rondo::auth {

inline Digest secret_of(int number) {
  Digest secret{};
  secret.back() = static_cast<std::byte>(number);
  return secret;
}

}  // namespace rondo::auth
