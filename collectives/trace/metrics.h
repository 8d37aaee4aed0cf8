// SPDX-License-Identifier: Apache-2.0
// Metrics: the metrics of all ranks of a job on this host, where RONDO_METRICS asks for them: by
// HTTP at PORT (of the loopback interface) or HOST:PORT, or as a file for node_exporter's textfile
// collector. The status service (collectives/status) drives it, on its thread.
//
// One process of a host has it: that of the first rank of the first communicator there. It reads
// the black boxes of all of them. Guarantees: a port in use or a file that cannot be written costs
// one line for the user (base/log.h); never waits for a reader. The file is replaced whole, and
// removed at the end. Cost: a copy of each rank's box per scrape, or every kFileSeconds.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "collectives/trace/metrics_text.h"
#include "transport/socket/address.h"
#include "transport/socket/tcp.h"

namespace rondo::trace {

inline constexpr double kFileSeconds = 5;

// Where the text of RONDO_METRICS says that metrics go; `host` stands for %h.
struct MetricsPlace {
  std::optional<net::HostPort> listen;
  std::string file;
};
Result<MetricsPlace> parse_metrics_place(std::string_view text, std::string_view host);

class Metrics {
 public:
  // The ranks for which others wait, from the status (collectives/status/inspect.h).
  using FindCulprits = std::function<std::vector<Culprit>()>;
  static bool are_asked_for();
  // At the place of RONDO_METRICS; null, and a notice, if that cannot be used.
  static std::unique_ptr<Metrics> open(FindCulprits find_culprits);
  ~Metrics();
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

  const net::Socket* listener() const { return listener_ ? &listener_ : nullptr; }
  std::string answer_to(std::string_view request);  // of HTTP
  // When step() is due: it writes the file.
  net::Clock::time_point next() const { return next_write_; }
  void step();

 private:
  explicit Metrics(FindCulprits find_culprits) : find_culprits_(std::move(find_culprits)) {}
  Status open_at(const MetricsPlace& place);
  std::string text();

  const FindCulprits find_culprits_;
  net::Socket listener_;
  std::string file_;
  net::Clock::time_point next_write_ = net::Clock::time_point::max();
  LateSums late_;
};

// The answer to an HTTP request; `text`: the metrics.
std::string answer_to(std::string_view request, const std::string& text);

}  // namespace rondo::trace
