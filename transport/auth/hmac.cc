// SPDX-License-Identifier: Apache-2.0
#include "transport/auth/hmac.h"

#define OPENSSL_SUPPRESS_DEPRECATED  // NOLINT: low-level functions on purpose, see the header
#include <openssl/crypto.h>
#include <openssl/sha.h>

#include <algorithm>

#include "base/process.h"

namespace rondo::auth {
namespace {

constexpr std::size_t kBlock = 64;

class Sha256 {
 public:
  Sha256() { SHA256_Init(&context_); }
  void add(std::span<const std::byte> bytes) {
    if (!bytes.empty()) SHA256_Update(&context_, bytes.data(), bytes.size());
  }
  Digest finish() {
    Digest digest;
    SHA256_Final(reinterpret_cast<unsigned char*>(digest.data()), &context_);
    return digest;
  }

 private:
  SHA256_CTX context_;
};

}  // namespace

Digest sha256(std::initializer_list<std::span<const std::byte>> parts) {
  Sha256 hash;
  for (const auto part : parts) hash.add(part);
  return hash.finish();
}

Digest hmac_sha256(std::span<const std::byte> key,
                   std::initializer_list<std::span<const std::byte>> parts) {
  std::array<std::byte, kBlock> pad{};
  if (key.size() > kBlock) {
    const Digest shorter = sha256({key});
    std::copy(shorter.begin(), shorter.end(), pad.begin());
  } else {
    std::copy(key.begin(), key.end(), pad.begin());
  }
  Sha256 inner;
  for (std::byte& byte : pad) byte ^= std::byte{0x36};
  inner.add(pad);
  for (const auto part : parts) inner.add(part);
  const Digest first = inner.finish();
  Sha256 outer;
  for (std::byte& byte : pad) byte ^= std::byte{0x36 ^ 0x5c};
  outer.add(pad);
  outer.add(first);
  return outer.finish();
}

Digest derive(const Digest& secret, std::string_view label, std::span<const std::byte> context) {
  const std::byte end_of_label{0};
  return hmac_sha256(secret, {std::as_bytes(std::span(label)), {&end_of_label, 1}, context});
}

bool same_digest(std::span<const std::byte> a, std::span<const std::byte> b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

Digest random_digest() {
  Digest digest;
  fill_random(digest);
  return digest;
}

}  // namespace rondo::auth
