// SPDX-License-Identifier: Apache-2.0
// Any bytes to either side of a handshake, split anywhere: no peer without the secret is proven,
// nothing is read beyond a message, and a refused handshake asks for no more bytes.
#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include "transport/auth/handshake.h"

namespace {

using namespace rondo::auth;
using rondo::Bytes;
using rondo::ByteSpan;
using State = Handshake::State;

void require(bool condition) {
  if (!condition) std::abort();
}

void feed(Handshake& to, ByteSpan bytes, std::size_t at_once) {
  while (!bytes.empty() && to.state() != State::kRefused && to.state() != State::kProven) {
    if (to.state() == State::kTurn) to.challenge({});
    if (!to.unsent().empty()) to.sent(to.unsent().size());
    const auto room = to.room();
    require(room.size() <= Handshake::kMaxBytes);
    if (room.empty()) return;
    const std::size_t count = std::min({room.size(), bytes.size(), at_once});
    std::copy_n(bytes.begin(), count, room.begin());
    to.received(count);
    bytes = bytes.subspan(count);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const auto bytes = std::as_bytes(std::span(data + 1, size - 1));
  Handshake acceptor = Handshake::acceptor("fuzz");
  feed(acceptor, bytes, 1 + data[0]);
  require(acceptor.state() != State::kProven);
  Handshake connector = Handshake::connector(Digest{}, "fuzz");
  connector.sent(connector.unsent().size());
  for (const std::byte byte : bytes) {
    if (connector.room().empty()) break;
    connector.room()[0] = byte;
    connector.received(1);
  }
  require(connector.state() == State::kTalking || connector.state() == State::kRefused);
  return 0;
}
