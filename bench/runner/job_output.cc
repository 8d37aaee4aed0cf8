// SPDX-License-Identifier: Apache-2.0
#include "bench/runner/job_output.h"

#include <fmt/format.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <iterator>

namespace rondo::runner {
namespace {

constexpr std::size_t kLongestLine = 64 << 10;
constexpr std::size_t kMaxWaiting = 1 << 20;
constexpr std::size_t kAtomicWrite = 4096;  // PIPE_BUF: a writable pipe accepts that much

}  // namespace

void JobOutput::add(int rank, int target, Fd pipe) {
  assert(rank >= 0 && (target == 1 || target == 2));
  sources_.push_back({rank, target, std::move(pipe), {}});
}

void JobOutput::log(int rank, Fd file, std::string path) {
  assert(rank >= 0);
  const auto index = static_cast<std::size_t>(rank);
  if (logs_.size() <= index) logs_.resize(index + 1);
  logs_[index] = {std::move(file), std::move(path)};
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

void JobOutput::settle() {
  for (int burst = 0; burst < 256; ++burst) {
    std::vector<pollfd> polls;
    ask(polls);
    if (poll(polls.data(), polls.size(), 0) <= 0) return;
    serve(polls);
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

void JobOutput::append(int rank, std::string_view line) {
  const auto index = static_cast<std::size_t>(rank);
  if (index >= logs_.size() || !logs_[index].file) return;
  const iovec parts[] = {{const_cast<char*>(line.data()), line.size()},
                         {const_cast<char*>("\n"), 1}};
  if (writev(logs_[index].file.get(), parts, 2) >= 0) return;
  fmt::print(stderr, "rondo run: {}: {}; the rest of rank {}'s output is not in it\n",
             logs_[index].path, strerror(errno), rank);
  logs_[index].file.reset();
}

void JobOutput::emit(const Source& source, std::string_view line) {
  append(source.rank, line);
  if (write_error_ != 0) return;
  std::string& out = waiting(source.target);
  if (prefix_) fmt::format_to(std::back_inserter(out), "[{}] ", source.rank);
  out.append(line);
  out.push_back('\n');
}

void JobOutput::write_to(int target) {
  std::string& out = waiting(target);
  // Whole lines: stdout and stderr may be one pipe, where no line may cut another.
  const std::size_t newline =
      out.size() <= kAtomicWrite ? std::string::npos : out.rfind('\n', kAtomicWrite - 1);
  const std::size_t size =
      newline == std::string::npos ? std::min(out.size(), kAtomicWrite) : newline + 1;
  const ssize_t put = write(target, out.data(), size);
  if (put > 0) {
    out.erase(0, static_cast<std::size_t>(put));
  } else if (put < 0 && errno != EINTR && errno != EAGAIN) {
    write_error_ = errno;
    out.clear();
  }
}

}  // namespace rondo::runner
