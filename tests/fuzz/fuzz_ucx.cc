// SPDX-License-Identifier: Apache-2.0
// Any bytes as the greeting of a UCX link: an accepted one encodes to the same bytes.
#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include "transport/ucx/greeting.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace rondo;
  const ByteSpan bytes(reinterpret_cast<const std::byte*>(data), size);
  if (const auto greeting = ucx::parse_greeting(bytes); greeting.ok()) {
    const Bytes again = ucx::serialize(*greeting);
    if (!std::equal(again.begin(), again.end(), bytes.begin(), bytes.end())) std::abort();
    if (greeting->address.empty()) std::abort();
  }
  return 0;
}
