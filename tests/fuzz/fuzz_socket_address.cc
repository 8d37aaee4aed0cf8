// SPDX-License-Identifier: Apache-2.0
// Any text as the values of NCCL_COMM_ID, NCCL_SOCKET_IFNAME and NCCL_SOCKET_FAMILY, and as a size.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/env.h"
#include "transport/socket/interfaces.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace rondo;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto place = net::parse_host_port(text); place.ok()) {
    const auto& [host, port] = place.value();
    if (host.empty() || port == 0) std::abort();
    const bool v6 = host.find(':') != std::string::npos || text.starts_with('[');
    const auto again = net::parse_host_port(v6 ? fmt::format("[{}]:{}", host, port)
                                               : fmt::format("{}:{}", host, port));
    if (!again.ok() || again.value().host != host || again.value().port != port) std::abort();
  }
  const auto filter = net::InterfaceFilter::parse(text);
  (void)filter.admits("eth0");
  (void)filter.admits(text);
  (void)net::parse_family(text);
  (void)env::parse_bytes(text);
  return 0;
}
