// SHA-256, HMAC-SHA256, derived keys and random bytes.
//
// OpenSSL's plain SHA-256 functions: they need no initialisation of the library (a millisecond in
// every process) and leave nothing behind that could be gone while a thread still runs at exit.
//
//   const Digest of_child = derive(secret, "child communicator", context);   // one way
#pragma once

#include <array>
#include <cstddef>
#include <initializer_list>
#include <span>
#include <string_view>

namespace rondo::auth {

using Digest = std::array<std::byte, 32>;

Digest sha256(std::initializer_list<std::span<const std::byte>> parts);
// Over the parts one after the other; callers make them unambiguous (fixed sizes).
Digest hmac_sha256(std::span<const std::byte> key,
                   std::initializer_list<std::span<const std::byte>> parts);
// A secret for one purpose: it tells nothing of `secret`, nor of what other labels or contexts
// give.
Digest derive(const Digest& secret, std::string_view label,
              std::span<const std::byte> context = {});
// In constant time.
bool same_digest(std::span<const std::byte> a, std::span<const std::byte> b);
Digest random_digest();

}  // namespace rondo::auth
