// SPDX-License-Identifier: Apache-2.0
// notice(): tells the user that something which the user has asked for cannot be done.
//
// A WARN line of the log where NCCL_DEBUG asks for those; else one line on standard error: without
// NCCL_DEBUG the log is silent, and the user would look for the result in vain. Not for errors that
// a call returns. Cost: one write(2).
//
//   notice(fmt::format("RONDO_METRICS={}: {}; the job goes on without metrics", text, why));
#pragma once

#include <string>

namespace rondo {

void notice(const std::string& text);

}  // namespace rondo
