// SPDX-License-Identifier: Apache-2.0
// Any bytes on a side channel from a peer that has proved itself: the channel ends, or returns the
// blob that they frame. It never returns more than kMaxBlob bytes, and nothing after its end.
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include "transport/streams/side_channel.h"

namespace {

using namespace rondo;
using namespace rondo::net;

void require(bool condition) {
  if (!condition) std::abort();
}

}  // namespace

// The first byte says where the rest is split: both parts arrive separately.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const auto bytes = std::as_bytes(std::span(data + 1, size - 1));
  int ends[2];
  require(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) == 0);
  auto poller = Poller::open();
  require(poller.ok());
  Socket far(ends[1]);
  SideChannel channel({1, 0, 0}, {}, "there", std::make_unique<Stream>(*poller, Socket(ends[0])));
  const std::size_t cut = data[0] * bytes.size() / 256;
  for (const ByteSpan half : {bytes.first(cut), bytes.subspan(cut)}) {
    if (!half.empty()) (void)!::write(far.get(), half.data(), half.size());
    while (poller->wait(std::chrono::milliseconds(0))) channel.progress();
    channel.progress();
    channel.progress();
  }
  using State = SideChannel::State;
  if (channel.state() == State::kOpen) {
    require(channel.blob().size() <= SideChannel::kMaxBlob);
    require(std::ranges::equal(SideChannel::frame(channel.blob()), bytes));
  }
  require((channel.state() == State::kEnded) == !channel.why().empty());
  return 0;
}
