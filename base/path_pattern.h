// SPDX-License-Identifier: Apache-2.0
// Names of files with %h (the host), %p (the process id) and %% (a percent sign), as users give
// them in NCCL_DEBUG_FILE and RONDO_METRICS.
//
//   open_output(expand_path("/var/log/rondo-%h-%p.log", own_host_name()), ...);
//
// Guarantees: what stands for %h is one part of a path that names no other folder, whatever the
// host is called: '/', control characters and a leading dot become '_'. It is not expanded again.
// Other letters after a percent sign stay as they are. Cost: a copy of the text.
#pragma once

#include <string>
#include <string_view>

namespace rondo {

std::string expand_path(std::string_view pattern, std::string_view host);

// What gethostname() says.
std::string own_host_name();

}  // namespace rondo
