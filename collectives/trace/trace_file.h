// SPDX-License-Identifier: Apache-2.0
// The file of a rank's trace: JSON, one file per rank and communicator
// (docs/reference/schemas/rank-trace.schema.json).
//
// Guarantees: a file is complete or absent (written beside, then renamed). Reading checks every
// value and names the file in its errors. Cost: about 1 MiB and 20 ms for 4096 calls.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "collectives/trace/call_skew.h"
#include "collectives/trace/rank_trace.h"

namespace rondo::trace {

// reason: "fault", "end", "signal" or "asked".
Json to_json(const RankTrace& trace, std::string_view reason);
Result<RankTrace> parse_trace(const std::string& text, const std::string& path);

// "rondo-1f2e3d4c5b6a7988-rank3.json"
std::string file_name(const RankTrace& trace);
// Makes the folder if it does not exist (its parent must). Returns the path of the file.
Result<std::string> write_trace(const std::string& folder, const RankTrace& trace,
                                std::string_view reason);
// All files of ranks in a folder. An error if there is none.
Result<std::vector<RankTrace>> read_traces(const std::string& folder);

// A trace for chrome://tracing and Perfetto: a track per rank, a slice per call, and arrows from
// the rank that came late to the ranks that waited for it.
//
// Cost: about 300 bytes and a JSON object per call.
//
// arrows_from_ns: calls to which a rank came at least this late have arrows.
Json chrome_trace(std::span<const TracedComm> comms, std::int64_t arrows_from_ns = 20'000);

}  // namespace rondo::trace
