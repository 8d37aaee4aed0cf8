// SPDX-License-Identifier: Apache-2.0
// A stream of records that is changed anywhere: the opened data are a prefix of the sealed data.
// The first four bytes give the offset at which the rest of the input replaces the stream.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "transport/auth/records.h"

namespace {

using namespace rondo::auth;
using rondo::Bytes;
using rondo::ByteSpan;

void require(bool condition) {
  if (!condition) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 4) return 0;
  std::uint32_t where = 0;
  std::memcpy(&where, data, sizeof(where));
  const auto instead = std::as_bytes(std::span(data + 4, size - 4));
  auto sealing = Records::make({}, Records::Side::kConnector).value();
  auto opening = Records::make({}, Records::Side::kAcceptor).value();
  Bytes plain(300), stream, opened;
  for (std::size_t i = 0; i < plain.size(); ++i) plain[i] = static_cast<std::byte>(i * 7);
  for (std::size_t i = 0; i < plain.size(); i += 30)
    require(sealing.seal(ByteSpan(plain).subspan(i, 30), stream).ok());
  const std::size_t at = where % stream.size();
  stream.resize(std::max(stream.size(), at + instead.size()));
  std::copy(instead.begin(), instead.end(), stream.begin() + static_cast<std::ptrdiff_t>(at));
  ByteSpan rest = stream;
  for (bool verified = true; verified && !rest.empty();) {
    const auto room = opening.room();
    require(room.size() <= 2 * Records::kMaxBytes);
    const std::size_t count = std::min(room.size(), rest.size());
    std::copy_n(rest.begin(), count, room.begin());
    opening.received(count);
    rest = rest.subspan(count);
    for (;;) {
      const auto next = opening.next();
      verified = next.ok();
      if (!next.ok() || !*next) break;
      opened.insert(opened.end(), (*next)->begin(), (*next)->end());
    }
  }
  require(opened.size() <= plain.size());
  require(std::equal(opened.begin(), opened.end(), plain.begin()));
  return 0;
}
