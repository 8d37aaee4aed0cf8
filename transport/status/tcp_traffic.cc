// SPDX-License-Identifier: Apache-2.0
#include "transport/status/tcp_traffic.h"

#include <dirent.h>
#include <linux/tcp.h>
#include <sys/socket.h>

#include <cstdlib>
#include <memory>
#include <optional>

namespace rondo::status {
namespace {

template <class Get>
net::SocketAddress address_by(const Get& get, int socket) {
  sockaddr_storage storage{};
  socklen_t length = sizeof(storage);
  auto* const address = reinterpret_cast<sockaddr*>(&storage);
  if (get(socket, address, &length) != 0) return {};
  return net::SocketAddress::from(address);
}

std::optional<TcpTraffic> traffic_of(int fd) {
  tcp_info info{};
  socklen_t length = sizeof(info);
  if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length) != 0) return std::nullopt;
  TcpTraffic traffic;
  traffic.own = own_address(fd);
  traffic.peer = peer_address(fd);
  if (!traffic.own.valid() || !traffic.peer.valid()) return std::nullopt;  // it listens
  traffic.sent_bytes = info.tcpi_bytes_acked;
  traffic.received_bytes = info.tcpi_bytes_received;
  traffic.segments = info.tcpi_data_segs_out;
  traffic.resent_segments = info.tcpi_total_retrans;
  traffic.rtt_seconds = info.tcpi_rtt * 1e-6;
  traffic.busy_seconds = static_cast<double>(info.tcpi_busy_time) * 1e-6;
  traffic.reader_limited_seconds = static_cast<double>(info.tcpi_rwnd_limited) * 1e-6;
  traffic.newest_per_second = static_cast<double>(info.tcpi_delivery_rate);
  traffic.sends_seldom = info.tcpi_delivery_rate_app_limited != 0;
  return traffic;
}

}  // namespace

net::SocketAddress own_address(int socket) { return address_by(getsockname, socket); }
net::SocketAddress peer_address(int socket) { return address_by(getpeername, socket); }

std::vector<TcpTraffic> tcp_traffic() {
  std::vector<TcpTraffic> all;
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(opendir("/proc/self/fd"), closedir);
  if (folder == nullptr) return all;
  while (const dirent* const entry = readdir(folder.get())) {
    char* end = nullptr;
    const long fd = std::strtol(entry->d_name, &end, 10);
    if (end == entry->d_name) continue;  // "." and ".."
    if (auto traffic = traffic_of(static_cast<int>(fd))) all.push_back(*traffic);
  }
  return all;
}

}  // namespace rondo::status
