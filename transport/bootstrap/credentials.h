// Credentials: the secret of one rendezvous, and the proofs that it is known.
//
// A proof is an HMAC-SHA256 over everything that both sides said so far, both nonces included, and
// over which side proves: it can be neither replayed nor reflected. The tag is derived one way.
#pragma once

#include "transport/auth/hmac.h"
#include "transport/bootstrap/messages.h"

namespace rondo::bootstrap {

class Credentials {
 public:
  explicit Credentials(const Digest& secret) : Credentials(secret, secret) {}
  // The tag is of `named`: ranks of one id with different RONDO_SECRETs find each other, and say
  // so.
  Credentials(const Digest& named, const Digest& secret);

  const Tag& tag() const { return tag_; }
  Digest proof_of_door(const Hello& hello, const Challenge& challenge) const;
  Digest proof_of_visitor(const Hello& hello, const Challenge& challenge, const Join& join) const;

 private:
  Digest key_;
  Tag tag_;
};

}  // namespace rondo::bootstrap
