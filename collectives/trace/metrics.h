// SPDX-License-Identifier: Apache-2.0
// Serves the metrics of all ranks of a job on this host, as RONDO_METRICS asks: by HTTP at PORT (of
// the loopback interface) or HOST:PORT, or as a file for node_exporter's textfile collector.
//
// One process of a host does it: that of the first rank of the first communicator there. It reads
// the black boxes of all of them. Guarantees: it runs on a thread of its own; a slow reader has two
// seconds and delays no rank; a port in use or a file that cannot be written costs one WARN line.
// The file is replaced whole, and removed at the end of the process. Cost: a copy of each rank's
// box per scrape, or every kFileSeconds.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "transport/socket/address.h"

namespace rondo::trace {

inline constexpr double kFileSeconds = 5;

// Where the text of RONDO_METRICS says that metrics go.
struct MetricsPlace {
  std::optional<net::HostPort> listen;
  std::string file;
};
Result<MetricsPlace> parse_metrics_place(std::string_view text);

// Call when a communicator has been made. first_of_host: the rank is the first one of its host.
// Only the first call in a process counts.
void serve_metrics_if_asked(bool first_of_host);

// The answer to an HTTP request; `text`: makes the metrics.
std::string answer_to(std::string_view request, const std::string& text);

}  // namespace rondo::trace
