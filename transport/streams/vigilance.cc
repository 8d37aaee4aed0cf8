#include "transport/streams/vigilance.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>

namespace rondo::net {
namespace {

void set_option(const Stream& stream, int level, int option, int value) {
  ::setsockopt(stream.socket().get(), level, option, &value, sizeof(value));
}

}  // namespace

void watch(const Stream& stream, const Vigilance& vigilance, bool few_bytes) {
  const int probe = std::max(1, vigilance.seconds / 4);
  set_option(stream, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(stream, IPPROTO_TCP, TCP_KEEPIDLE, probe);
  set_option(stream, IPPROTO_TCP, TCP_KEEPINTVL, probe);
  set_option(stream, IPPROTO_TCP, TCP_KEEPCNT, 3);
  if (few_bytes) set_option(stream, IPPROTO_TCP, TCP_USER_TIMEOUT, vigilance.seconds * 1000);
}

void close_gently(const Stream& stream) {
  constexpr int kMaxReads = 64;
  ::shutdown(stream.socket().get(), SHUT_WR);
  std::byte waste[16 << 10];
  for (int i = 0; i < kMaxReads; ++i)
    if (::recv(stream.socket().get(), waste, sizeof(waste), MSG_DONTWAIT) <= 0) return;
}

}  // namespace rondo::net
