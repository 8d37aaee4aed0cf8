// SPDX-License-Identifier: Apache-2.0
// SHA-256, HMAC-SHA256, derived keys and random bytes.
//
// Uses OpenSSL's low-level SHA-256 functions: they need no initialization of the library (a
// millisecond per process) and no state that exit could destroy while a thread still runs.
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
// Over the concatenated parts. Callers must make them unambiguous (fixed sizes).
Digest hmac_sha256(std::span<const std::byte> key,
                   std::initializer_list<std::span<const std::byte>> parts);
// Derives a secret for one purpose. It reveals nothing about `secret`, or about secrets of other
// labels or contexts.
Digest derive(const Digest& secret, std::string_view label,
              std::span<const std::byte> context = {});
// Compares in constant time.
bool same_digest(std::span<const std::byte> a, std::span<const std::byte> b);
Digest random_digest();

}  // namespace rondo::auth
