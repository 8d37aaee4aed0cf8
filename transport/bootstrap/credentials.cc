#include "transport/bootstrap/credentials.h"

#include <algorithm>
#include <string_view>

namespace rondo::bootstrap {
namespace {

ByteSpan label(std::string_view text) { return std::as_bytes(std::span(text)); }

}  // namespace

Credentials::Credentials(const Digest& named, const Digest& secret)
    : key_(auth::hmac_sha256(secret, {label("rondo key")})), tag_{} {
  const Digest name = auth::hmac_sha256(named, {label("rondo tag")});
  std::copy_n(name.begin(), tag_.size(), tag_.begin());
}

Digest Credentials::proof_of_door(const Hello& hello, const Challenge& challenge) const {
  return auth::hmac_sha256(key_, {label("door"), hello.encode(), challenge.encode_unproven()});
}

Digest Credentials::proof_of_visitor(const Hello& hello, const Challenge& challenge,
                                     const Join& join) const {
  return auth::hmac_sha256(key_, {label("visitor"), hello.encode(), challenge.encode_unproven(),
                                  join.encode_unproven()});
}

}  // namespace rondo::bootstrap
