// SPDX-License-Identifier: Apache-2.0
#include "collectives/planner/protocol_filter.h"

#include <algorithm>

namespace rondo {
namespace {

constexpr std::string_view kNames[] = {"simple", "ll", "ll128"};
static_assert((1 << std::size(kNames)) - 1 == ProtocolFilter::kAll);

}  // namespace

Result<ProtocolFilter> parse_protocols(std::string_view text, std::string_view source,
                                       std::uint8_t usual) {
  const Vocabulary words{"protocol", kNames, {}, usual};
  RONDO_TRY(const FunctionSets sets, parse_function_lists(text, source, words));
  if (std::find(sets.begin(), sets.end(), 0) != sets.end())
    return fail(StatusCode::kInvalidUsage, "{}='{}' leaves no protocol: allow simple, ll or ll128",
                source, text);
  return ProtocolFilter{sets};
}

std::string protocol_names(std::uint16_t bits) {
  std::string text;
  for (std::size_t i = 0; i < std::size(kNames); ++i)
    if ((bits >> i) & 1) text.append(text.empty() ? "" : ", ").append(kNames[i]);
  return text;
}

}  // namespace rondo

namespace rondo::gpu {

const char* name(cuda::Protocol protocol) {
  constexpr const char* kNames[cuda::kProtocols] = {"Simple", "LL", "LL128"};
  return kNames[static_cast<int>(protocol)];
}

Result<std::uint8_t> parse_gpu_protocols(std::string_view text, std::uint8_t usual) {
  RONDO_TRY(const ProtocolFilter filter, parse_protocols(text, "NCCL_PROTO", usual));
  const FunctionSets& sets = filter.allowed;
  if (std::any_of(sets.begin(), sets.end(), [&](auto set) { return set != sets[0]; }))
    return fail(StatusCode::kInvalidUsage,
                "NCCL_PROTO='{}': between GPUs one list counts for all functions, such as "
                "'simple,ll'",
                text);
  return static_cast<std::uint8_t>(sets[0]);
}

}  // namespace rondo::gpu
