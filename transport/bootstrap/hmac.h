// SHA-256, HMAC-SHA256 and random bytes.
//
// OpenSSL's plain SHA-256 functions: they need no initialisation of the library (a millisecond in
// every process) and leave nothing behind that could be gone while a thread still runs at exit.
#pragma once

#include <array>
#include <cstddef>
#include <initializer_list>
#include <span>

namespace rondo::bootstrap {

using Digest = std::array<std::byte, 32>;

Digest sha256(std::initializer_list<std::span<const std::byte>> parts);
// Over the parts one after the other; callers make them unambiguous (fixed sizes).
Digest hmac_sha256(std::span<const std::byte> key,
                   std::initializer_list<std::span<const std::byte>> parts);
// In constant time.
bool same_digest(const Digest& a, const Digest& b);
Digest random_digest();

}  // namespace rondo::bootstrap
