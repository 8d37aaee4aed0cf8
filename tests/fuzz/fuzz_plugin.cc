// SPDX-License-Identifier: Apache-2.0
// Any bytes as the greeting of a plugin's link and as a device's properties, and any text as
// NCCL_NET_PLUGIN: accepted values are in range and encode to the same bytes.
#include <strings.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>

#include "transport/plugin/connection.h"
#include "transport/plugin/library.h"
#include "transport/plugin/plugin.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace rondo;
  const ByteSpan bytes(reinterpret_cast<const std::byte*>(data), size);
  if (const auto greeting = plugin::parse_greeting(bytes); greeting.ok()) {
    const Bytes again = plugin::serialize(*greeting);
    if (!std::equal(again.begin(), again.end(), bytes.begin(), bytes.end())) std::abort();
  }
  const std::string text(reinterpret_cast<const char*>(data), size);
  const std::string file = plugin::file_of(plugin::kNetwork, text);
  const bool is_none = text.size() == 4 && strcasecmp(text.c_str(), "none") == 0;
  if (file.empty() != is_none) std::abort();
  if (text.find('/') != std::string::npos && file != text) std::abort();

  std::vector<plugin::Device> devices;
  for (int version = plugin::abi::kOldest; version <= plugin::abi::kNewest; ++version) {
    alignas(16) std::array<std::byte, 512> properties{};
    std::copy_n(bytes.begin(), std::min(size, properties.size()), properties.begin());
    std::fill_n(properties.begin(), 2 * sizeof(char*), std::byte{});  // its string pointers
    devices.push_back(plugin::read_device(version, version, properties.data()));
    const std::uint64_t maximum = devices.back().max_bytes;
    if (maximum == 0 || maximum > std::numeric_limits<int>::max()) std::abort();
  }
  for (int rank = 0; rank < 7; ++rank) {
    const plugin::Device* const chosen = plugin::choose_device(devices, {{}, rank});
    if (chosen != nullptr && (chosen->offloads || !chosen->takes(net::Memory::Kind::kHost)))
      std::abort();
  }
  return 0;
}
