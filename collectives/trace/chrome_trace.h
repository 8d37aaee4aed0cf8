// SPDX-License-Identifier: Apache-2.0
// A trace for chrome://tracing and Perfetto: a track per rank, a slice per call, and arrows from
// the rank that came late to the ranks that waited for it.
//
// Cost: about 300 bytes and a JSON object per call.
#pragma once

#include <cstdint>
#include <span>

#include "base/json.h"
#include "collectives/trace/call_skew.h"

namespace rondo::trace {

// arrows_from_ns: calls to which a rank came at least this late have arrows.
Json chrome_trace(std::span<const TracedComm> comms, std::int64_t arrows_from_ns = 20'000);

}  // namespace rondo::trace
