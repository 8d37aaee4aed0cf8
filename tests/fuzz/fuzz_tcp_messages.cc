// SPDX-License-Identifier: Apache-2.0
// Any bytes: the decoders of the TCP transport refuse them, or return a value that encodes to the
// same bytes. As the stream of a link, they are written only into the offered memory, and no
// counter decreases.
#include <sys/socket.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include "transport/streams/connector.h"
#include "transport/streams/stream_port.h"
#include "transport/tcp/sides.h"

namespace {

using namespace rondo;
using namespace rondo::net;
using namespace rondo::tcp;

void require(bool condition) {
  if (!condition) std::abort();
}

// The first byte says where the rest is split: both parts arrive separately.
void receive(ByteSpan bytes) {
  constexpr std::size_t kRoom = 9000;
  constexpr int kMessages = 4;
  if (bytes.empty()) return;
  int ends[2];
  require(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) == 0);
  auto poller = Poller::open();
  require(poller.ok());
  net::Socket far(ends[1]);
  std::vector<std::unique_ptr<Stream>> streams;
  streams.push_back(std::make_unique<Stream>(*poller, net::Socket(ends[0])));
  ReceiveSide side;
  CallRecord records[kMessages];
  std::vector<std::vector<std::byte>> rooms(kMessages, std::vector<std::byte>(kRoom));
  for (int i = 0; i < kMessages; ++i) side.push(records[i], rooms[i]);
  const std::size_t cut = std::to_integer<std::size_t>(bytes[0]) * bytes.size() / 256;
  for (const ByteSpan half : {bytes.first(cut), bytes.subspan(cut)}) {
    if (!half.empty()) require(::write(far.get(), half.data(), half.size()) >= 0);
    const std::uint64_t before = side.received();
    while (poller->wait(std::chrono::milliseconds(0))) side.progress(streams);
    require(side.received() >= before && side.received() <= kMessages);
  }
  for (std::uint64_t i = 0; i < side.received(); ++i) require(side.bytes_of(i) <= kRoom);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  if (const auto socket = decode_socket(bytes)) require(std::ranges::equal(encode(*socket), bytes));
  if (const auto addresses = decode_addresses(bytes))
    require(std::ranges::equal(encode_addresses(*addresses), bytes));
  receive(bytes);
  return 0;
}
