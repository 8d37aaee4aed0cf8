// SPDX-License-Identifier: Apache-2.0
#include "collectives/trace/metrics.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <utility>

#include "base/env.h"
#include "base/log.h"
#include "base/poll_until.h"
#include "base/process.h"
#include "base/text_file.h"
#include "base/thread.h"
#include "collectives/trace/metrics_text.h"
#include "transport/socket/tcp.h"

namespace rondo::trace {
namespace {

constexpr std::size_t kMaxRequest = 8192;

bool all_digits(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(),
                                      [](unsigned char c) { return std::isdigit(c) != 0; });
}

// Looks at all ranks of this host that share communicators with this process.
class Metrics {
 public:
  std::string text() {
    auto traces = traces_of_process(getpid());
    std::vector<Job> jobs;
    if (traces.ok()) jobs = jobs_of(std::move(*traces));
    late_.add(jobs);
    return metrics_text(jobs, late_);
  }

 private:
  LateSums late_;
};

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

Status serve_visitor(const net::Socket& socket, Metrics& metrics) {
  const auto deadline = net::Deadline::of(std::chrono::seconds(2));
  std::string request;
  while (request.find("\r\n\r\n") == std::string::npos && request.size() < kMaxRequest) {
    pollfd entry{socket.get(), POLLIN, 0};
    RONDO_CHECK_OK(net::wait_ready({&entry, 1}, deadline, "reading a request for metrics"));
    char buffer[1024];
    const ssize_t got = recv(socket.get(), buffer, sizeof(buffer), 0);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (got <= 0) return ok_status();  // it has left
    request.append(buffer, static_cast<std::size_t>(got));
  }
  const std::string answer = answer_to(request, metrics.text());
  for (std::size_t sent = 0; sent < answer.size();) {
    pollfd entry{socket.get(), POLLOUT, 0};
    RONDO_CHECK_OK(net::wait_ready({&entry, 1}, deadline, "sending metrics"));
    const ssize_t put =
        send(socket.get(), answer.data() + sent, answer.size() - sent, MSG_NOSIGNAL);
    if (put < 0 && errno != EAGAIN && errno != EINTR) return ok_status();
    if (put > 0) sent += static_cast<std::size_t>(put);
  }
  shutdown(socket.get(), SHUT_WR);
  return ok_status();
}

void serve_port(const net::Socket& listener) {
  Metrics metrics;
  while (listener.valid()) {
    pollfd entry{listener.get(), POLLIN, 0};
    if (poll(&entry, 1, -1) < 0 && errno != EINTR) return;
    const auto visitor = net::accept_tcp(listener);
    if (visitor.ok() && *visitor) (void)serve_visitor((*visitor)->socket, metrics).ok();
    if (!visitor.ok()) poll_until([] { return false; }, seconds_from_now(0.1));  // no descriptors
  }
}

// Where a process writes its metrics; it removes the file at its end. A forked child has none.
struct MetricsFile {
  explicit MetricsFile(std::string where) : path(std::move(where)) {}

  const std::string path;
  const std::uint32_t made_in = fork_generation();
  std::mutex mutex;
  bool ended = false;

  Status write(const std::string& text) {
    std::lock_guard lock(mutex);
    return ended ? ok_status() : write_output(path, text);
  }
  void remove() {
    std::lock_guard lock(mutex);
    ended = true;
    unlink(path.c_str());
  }
};

std::atomic<MetricsFile*>& newest_file() {
  static std::atomic<MetricsFile*> newest{nullptr};
  return newest;
}

void remove_at_exit() {
  MetricsFile* const file = newest_file().load(std::memory_order_acquire);
  if (file != nullptr && file->made_in == fork_generation()) file->remove();
}

void serve_file(MetricsFile& file) {
  Metrics metrics;
  for (;;) {
    poll_until([] { return false; }, seconds_from_now(kFileSeconds), std::chrono::seconds(1));
    (void)file.write(metrics.text()).ok();
  }
}

Status begin_file(const std::string& path) {
  auto* const file = new MetricsFile(path);  // used at the end of the process
  Metrics metrics;
  RONDO_CHECK_OK(file->write(metrics.text()));
  newest_file().store(file, std::memory_order_release);
  [[maybe_unused]] static const int registered = std::atexit(remove_at_exit);
  auto thread = Thread::start(
      "metrics", [file] { serve_file(*file); }, [](const Error&) {});
  if (!thread.ok()) return thread.error();
  thread->detach();
  return ok_status();
}

Status begin_port(const net::HostPort& place) {
  RONDO_TRY(net::Socket listener, listen_at_place(place));
  auto shared = std::make_shared<net::Socket>(std::move(listener));
  auto thread = Thread::start(
      "metrics", [shared] { serve_port(*shared); }, [](const Error&) {});
  if (!thread.ok()) return thread.error();
  thread->detach();
  return ok_status();
}

std::string with_host_name(std::string path) {
  char host[256] = "";
  gethostname(host, sizeof(host) - 1);
  for (std::size_t at; (at = path.find("%h")) != std::string::npos;) path.replace(at, 2, host);
  return path;
}

}  // namespace

Result<MetricsPlace> parse_metrics_place(std::string_view text) {
  MetricsPlace place;
  const std::size_t colon = text.rfind(':');
  const bool is_port = all_digits(text);
  if (!is_port && (text.find('/') != std::string_view::npos || colon == std::string_view::npos ||
                   !all_digits(text.substr(colon + 1)))) {
    place.file = with_host_name(std::string(text));
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

void serve_metrics_if_asked(bool first_of_host) {
  static std::atomic<std::int64_t> asked_in{-1};  // fork_generation()
  const std::int64_t here = fork_generation();
  if (asked_in.exchange(here) == here) return;
  const std::string text = env::get_string("RONDO_METRICS");
  if (text.empty() || !first_of_host) return;
  const auto place = parse_metrics_place(text);
  Status begun = place.ok() ? ok_status() : Status(place.error());
  if (place.ok()) begun = place->listen ? begin_port(*place->listen) : begin_file(place->file);
  if (!begun.ok())
    RONDO_WARN(
        "RONDO_METRICS={}: {}; the job goes on without metrics: give a free port (9400, "
        "0.0.0.0:9400) or a file that this user can write",
        text, begun.error().text);
}

}  // namespace rondo::trace
