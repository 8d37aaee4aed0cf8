// secret_of(number): a secret of a test; those of different numbers differ.
#pragma once

#include "transport/auth/hmac.h"

namespace rondo::auth {

inline Digest secret_of(int number) {
  Digest secret{};
  secret[0] = static_cast<std::byte>(number);
  return secret;
}

}  // namespace rondo::auth
