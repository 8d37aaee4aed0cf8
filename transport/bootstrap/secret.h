// Secret: 32 bytes known only to the ranks of one id, or of one communicator.
//
// A secret never travels between ranks. Anything that needs its own secret (a child communicator,
// links to other hosts, meetings on a host) derives it, for a purpose and a context that all its
// ranks know. Without the first secret the second cannot be computed; the second reveals nothing
// about the first. Cost: one HMAC-SHA256.
//
//   const Secret links = communicator.derive("links");
//   const Secret child = communicator.derive("split", number_and_color);
#pragma once

#include <span>
#include <string_view>

#include "transport/auth/hmac.h"

namespace rondo::bootstrap {

using auth::Digest;

class Secret {
 public:
  Secret() = default;  // zeros: not secret
  explicit Secret(const Digest& bytes) : bytes_(bytes) {}
  static Secret random() { return Secret(auth::random_digest()); }

  Secret derive(std::string_view purpose, std::span<const std::byte> context = {}) const {
    return Secret(auth::derive(bytes_, purpose, context));
  }
  const Digest& bytes() const { return bytes_; }

 private:
  Digest bytes_{};
};

}  // namespace rondo::bootstrap
