// SPDX-License-Identifier: Apache-2.0
// secret_of(number): a secret for a test. Different numbers give different secrets.
#pragma once

#include "transport/auth/hmac.h"

namespace rondo::auth {

inline Digest secret_of(int number) {
  Digest secret{};
  secret[0] = static_cast<std::byte>(number);
  return secret;
}

}  // namespace rondo::auth
