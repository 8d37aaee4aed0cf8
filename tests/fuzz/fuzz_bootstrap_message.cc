// SPDX-License-Identifier: Apache-2.0
// Any bytes from the network: frames are found or refused; messages and ids are refused or encode
// to the bytes from which they were decoded. The first byte selects the decoder of the rest.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "transport/bootstrap/messages.h"
#include "transport/bootstrap/unique_id.h"
#include "transport/socket/frame.h"

namespace {

using namespace rondo::bootstrap;
using rondo::ByteSpan;

void require(bool condition) {
  if (!condition) std::abort();
}

template <class Message>
void round_trip(ByteSpan bytes) {
  if (const auto message = Message::decode(bytes)) {
    const auto again = message->encode();
    require(again.size() == bytes.size());
    require(again.empty() || std::memcmp(again.data(), bytes.data(), again.size()) == 0);
  }
}

// In two pieces, split anywhere.
void frames(ByteSpan bytes) {
  if (bytes.empty()) return;
  const std::size_t cut = std::to_integer<std::size_t>(bytes[0]) % bytes.size();
  constexpr std::size_t kMaxBytes = 512;
  rondo::net::FrameParser parser(kMaxBytes);
  for (const ByteSpan piece : {bytes.first(cut), bytes.subspan(cut)}) {
    parser.feed(piece);
    for (;;) {
      const auto frame = parser.next();
      if (!frame.ok()) return;
      if (!frame.value()) break;
      require(frame.value()->payload.size() <= kMaxBytes);
    }
  }
}

void entries(ByteSpan bytes) {
  const auto found = decode_entries(bytes, 5);
  if (!found) return;
  rondo::ByteWriter out;
  for (const Entry& entry : *found) append_entry(out, entry.rank, entry.bytes);
  require(out.written().size() == bytes.size());
}

void id(ByteSpan bytes) {
  UniqueId any;
  std::memcpy(any.bytes, bytes.data(), std::min(bytes.size(), sizeof(any.bytes)));
  const auto checked = rondo::auth::sha256({std::as_bytes(std::span(any.bytes)).first(124)});
  std::memcpy(any.bytes + 124, checked.data(), 4);  // so that the rest is decoded
  if (const auto contents = decode_id(any); contents.ok())
    require(decode_id(encode_id(contents.value())).value().addresses == contents.value().addresses);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const auto bytes = std::as_bytes(std::span(data + 1, size - 1));
  switch (data[0] % 6) {
    case 0:
      round_trip<Join>(bytes);
      break;
    case 1:
      round_trip<Table>(bytes);
      break;
    case 2:
      if (const auto error = decode_error(bytes)) require(error->text.size() <= kMaxErrorText);
      break;
    case 3:
      frames(bytes);
      break;
    case 4:
      entries(bytes);
      break;
    default:
      id(bytes);
      break;
  }
  return 0;
}
