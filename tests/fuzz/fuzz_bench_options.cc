// SPDX-License-Identifier: Apache-2.0
// Any command line of `rondo bench`: it is refused with an exit code, or its sweep ends. Any text
// as NCCL_TESTS_SPLIT: it is refused, or every rank has a group.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "bench/gpu_lane.h"
#include "bench/options.h"
#include "bench/split.h"

// Replaces the bench's function: no devices here.
int rondo::bench::gpu_devices() { return 0; }

namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace rondo::bench;
  if (size == 0) return 0;
  std::vector<std::string> words{"rondo bench"};
  const std::string text(reinterpret_cast<const char*>(data + 1), size - 1);
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find_first_of(std::string(" \n\0", 3), at), text.size());
    if (end > at) words.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  if (const auto split = Split::parse(text); split.ok()) {
    constexpr int kRanks = 5;
    for (int r = 0; r < kRanks; ++r) {
      const Split::Member place = split->place_of(r, kRanks);
      require(place.rank >= 0 && place.rank < place.ranks && place.ranks <= kRanks);
    }
  }
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  const bool plain = data[0] % 2 != 0;
  const auto named = data[0] % 4 < 2 ? std::optional(Kind::kAllReduce) : std::nullopt;
  const Parsed parsed = parse(static_cast<int>(words.size()), argv.data(), named, plain);
  if (!parsed.options) return 0;
  const Options& o = *parsed.options;
  require(o.iterations >= 0 && o.warmup >= 0 && o.threads >= 1 && o.ranks >= 0);
  require(!o.types.empty() && !o.ops.empty() && !o.values.empty());
  require(o.fail_if_slower >= 0);
  const std::vector<std::size_t> sizes = sweep_sizes(o);
  for (std::size_t i = 1; i < sizes.size(); ++i) require(sizes[i] > sizes[i - 1]);
  require(sizes.empty() || sizes.back() <= std::max(o.max_bytes, std::size_t{8}));
  return 0;
}
