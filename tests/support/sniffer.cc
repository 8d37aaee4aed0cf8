// SPDX-License-Identifier: Apache-2.0
#include "tests/support/sniffer.h"

#include <arpa/inet.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <netinet/ip.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <map>
#include <utility>

namespace rondo::test {
namespace {

bool raise_loopback() {
  const Fd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq request{};
  std::strcpy(request.ifr_name, "lo");
  request.ifr_flags = IFF_UP | IFF_RUNNING;
  return ioctl(socket.get(), SIOCSIFFLAGS, &request) == 0;
}

}  // namespace

std::optional<Sniffer> Sniffer::enter() {
  if (unshare(CLONE_NEWNET) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) return std::nullopt;
  Fd socket(::socket(AF_PACKET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, htons(ETH_P_ALL)));
  if (!socket.valid() || !raise_loopback()) return std::nullopt;
  const int room = 64 << 20;
  if (setsockopt(socket.get(), SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof(room)) != 0)
    setsockopt(socket.get(), SOL_SOCKET, SO_RCVBUF, &room, sizeof(room));
  return Sniffer(std::move(socket));
}

std::vector<std::byte> Sniffer::bytes() {
  std::map<std::pair<std::uint16_t, std::uint16_t>, std::vector<std::byte>> flows;
  std::vector<std::byte> packet(1 << 17);
  for (;;) {
    sockaddr_ll from{};
    socklen_t length = sizeof(from);
    const auto size = recvfrom(socket_.get(), packet.data(), packet.size(), 0,
                               reinterpret_cast<sockaddr*>(&from), &length);
    if (size < 0) break;
    if (from.sll_pkttype == PACKET_OUTGOING || ntohs(from.sll_protocol) != ETH_P_IP) continue;
    const auto total = static_cast<std::size_t>(size);
    iphdr ip{};
    tcphdr tcp{};
    std::memcpy(&ip, packet.data(), std::min(total, sizeof(ip)));
    const std::size_t start = ip.ihl * 4U;
    if (ip.protocol != IPPROTO_TCP || total < start + sizeof(tcp)) continue;
    std::memcpy(&tcp, packet.data() + start, sizeof(tcp));
    const std::size_t payload = start + tcp.doff * 4U;
    auto& flow = flows[{tcp.source, tcp.dest}];
    flow.insert(flow.end(), packet.begin() + static_cast<long>(payload), packet.begin() + size);
  }
  std::vector<std::byte> all;
  for (const auto& [ports, stream] : flows) all.insert(all.end(), stream.begin(), stream.end());
  return all;
}

}  // namespace rondo::test
