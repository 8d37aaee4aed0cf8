#include "api/cli/job_output.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string_view>

namespace rondo::cli {
namespace {

constexpr std::size_t kLongestLine = 64 << 10;
constexpr std::size_t kMaxWaiting = 1 << 20;
constexpr std::size_t kAtomicWrite = 4096;  // PIPE_BUF: a writable pipe accepts that much

}  // namespace

void JobOutput::add(int rank, int target, Fd pipe) {
  sources_.push_back({rank, target, std::move(pipe), {}});
}

bool JobOutput::sources_open() const {
  return std::any_of(sources_.begin(), sources_.end(), [](const Source& s) { return !!s.pipe; });
}

void JobOutput::close_sources() {
  for (Source& source : sources_) {
    if (!source.partial.empty()) emit(source, source.partial);
    source.partial.clear();
    source.pipe.reset();
  }
}

void JobOutput::ask(std::vector<pollfd>& polls) const {
  for (const Source& source : sources_)
    if (source.pipe && waiting(source.target).size() < kMaxWaiting)
      polls.push_back({source.pipe.get(), POLLIN, 0});
  for (int target : {1, 2})
    if (!waiting(target).empty()) polls.push_back({target, POLLOUT, 0});
}

void JobOutput::serve(const std::vector<pollfd>& polls) {
  for (const pollfd& ready : polls) {
    if (ready.revents == 0) continue;
    if (ready.events == POLLOUT) {
      write_to(ready.fd);
      continue;
    }
    for (Source& source : sources_)
      if (source.pipe.get() == ready.fd) read_from(source);
  }
}

void JobOutput::read_from(Source& source) {
  char buffer[16 << 10];
  const ssize_t got = read(source.pipe.get(), buffer, sizeof buffer);
  if (got < 0 && (errno == EINTR || errno == EAGAIN)) return;
  if (got <= 0) {
    source.pipe.reset();
    if (!source.partial.empty()) emit(source, source.partial);
    source.partial.clear();
    return;
  }
  source.partial.append(buffer, static_cast<std::size_t>(got));
  std::size_t start = 0;
  for (std::size_t end; (end = source.partial.find('\n', start)) != std::string::npos;
       start = end + 1)
    emit(source, std::string_view(source.partial).substr(start, end - start));
  source.partial.erase(0, start);
  if (source.partial.size() > kLongestLine) {
    emit(source, source.partial);
    source.partial.clear();
  }
}

void JobOutput::emit(const Source& source, std::string_view line) {
  if (reader_gone_) return;
  std::string& out = waiting(source.target);
  if (prefix_) fmt::format_to(std::back_inserter(out), "[{}] ", source.rank);
  out.append(line);
  out.push_back('\n');
}

void JobOutput::write_to(int target) {
  std::string& out = waiting(target);
  const ssize_t put = write(target, out.data(), std::min(out.size(), kAtomicWrite));
  if (put > 0) {
    out.erase(0, static_cast<std::size_t>(put));
  } else if (put < 0 && errno != EINTR && errno != EAGAIN) {
    out.clear();
    reader_gone_ = true;
  }
}

}  // namespace rondo::cli
