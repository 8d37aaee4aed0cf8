// SPDX-License-Identifier: Apache-2.0
#include "collectives/trace/metrics.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <utility>

#include "base/env.h"
#include "base/log.h"
#include "base/seconds.h"
#include "base/text_file.h"

namespace rondo::trace {
namespace {

bool all_digits(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(),
                                      [](unsigned char c) { return std::isdigit(c) != 0; });
}

Result<net::Socket> listen_at_place(const net::HostPort& place) {
  RONDO_TRY(const auto addresses, net::resolve(place, AF_UNSPEC));
  Error last = fail(StatusCode::kSystemError, "it has no address");
  for (const net::SocketAddress& address : addresses) {
    auto socket = net::listen_tcp(address);
    if (socket.ok()) return socket;
    last = socket.error();
  }
  return last;
}

}  // namespace

Result<MetricsPlace> parse_metrics_place(std::string_view text, std::string_view host) {
  MetricsPlace place;
  const std::size_t colon = text.rfind(':');
  const bool is_port = all_digits(text);
  if (!is_port && (text.find('/') != std::string_view::npos || colon == std::string_view::npos ||
                   !all_digits(text.substr(colon + 1)))) {
    place.file = expand_path(text, host);
    return place;
  }
  RONDO_TRY(place.listen,
            net::parse_host_port(is_port ? fmt::format("127.0.0.1:{}", text) : std::string(text)));
  return place;
}

std::string answer_to(std::string_view request, const std::string& text) {
  const auto answer = [](std::string_view status, std::string_view type, std::string_view body) {
    return fmt::format(
        "HTTP/1.1 {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{}",
        status, type, body.size(), body);
  };
  const std::string_view line = request.substr(0, request.find("\r\n"));
  if (!line.starts_with("GET ")) return answer("405 Method Not Allowed", "text/plain", "");
  std::string_view path = line.substr(4);
  path = path.substr(0, path.find_first_of(" ?"));
  if (path != "/metrics" && path != "/")
    return answer("404 Not Found", "text/plain", "metrics are at /metrics\n");
  return answer("200 OK", kMetricsType, text);
}

bool Metrics::are_asked_for() { return !env::get_string("RONDO_METRICS").empty(); }

std::unique_ptr<Metrics> Metrics::open(FindCulprits find_culprits) {
  const std::string text = env::get_string("RONDO_METRICS");
  const auto place = parse_metrics_place(text, own_host_name());
  std::unique_ptr<Metrics> metrics(new Metrics(std::move(find_culprits)));
  const Status begun = place.ok() ? metrics->open_at(*place) : Status(place.error());
  if (begun.ok()) return metrics;
  notice(
      fmt::format("RONDO_METRICS={}: {}; the job goes on without metrics: give a free port (9400, "
                  "0.0.0.0:9400) or a file that this user can write",
                  text, begun.error().text));
  return nullptr;
}

Status Metrics::open_at(const MetricsPlace& place) {
  if (place.listen) {
    RONDO_TRY(listener_, listen_at_place(*place.listen));
    return ok_status();
  }
  // The last process removes the file: root would remove /dev/null.
  struct stat about {};
  const bool exists = lstat(place.file.c_str(), &about) == 0;
  if (exists && !S_ISREG(about.st_mode) && !S_ISLNK(about.st_mode))
    return fail(StatusCode::kInvalidUsage, "it is {}", kind_of_file(about.st_mode));
  RONDO_CHECK_OK(write_output(place.file, text()));
  file_ = place.file;
  next_write_ = net::Clock::now() + to_nanoseconds(kFileSeconds);
  return ok_status();
}

Metrics::~Metrics() {
  if (!file_.empty()) unlink(file_.c_str());
}

// Of all ranks of this host that share communicators with this process.
std::string Metrics::text() {
  auto traces = traces_of_process(getpid());
  std::vector<TracedComm> comms;
  if (traces.ok()) comms = comms_of(std::move(*traces));
  late_.add(comms);
  return metrics_text(comms, late_, find_culprits_());
}

std::string Metrics::answer_to(std::string_view request) {
  return trace::answer_to(request, text());
}

void Metrics::step() {
  if (net::Clock::now() < next_write_) return;
  next_write_ = net::Clock::now() + to_nanoseconds(kFileSeconds);
  (void)write_output(file_, text()).ok();
}

}  // namespace rondo::trace
