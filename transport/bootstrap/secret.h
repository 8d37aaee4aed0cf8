// Secret: 32 bytes that only the ranks of one id, or of one communicator, hold.
//
// A secret never travels between ranks. Whatever needs one of its own (a child, links to other
// hosts, meetings on a host) derives it, for a purpose and a context that all its ranks know: who
// does not hold the first secret cannot compute the second, and the second tells nothing about the
// first. Cost: an HMAC-SHA256.
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
  Secret() = default;  // zeros: no job's secret
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
