// SPDX-License-Identifier: Apache-2.0
#include "bench/standard_output.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <system_error>

#include "base/text_file.h"

namespace rondo {
namespace {

int report_lost(std::string_view program, int error) {
  if (error == EPIPE) return kReaderGone;
  const char* const why = error == 0 ? "an earlier write failed" : std::strerror(error);
  print_error(program, fmt::format("cannot write to standard output: {}", why));
  return kOutputLost;
}

}  // namespace

void open_standard_streams() {
  for (const int fd : {0, 1, 2}) {
    if (fcntl(fd, F_GETFD) >= 0) continue;
    // The lowest free number is `fd`; it stays open until the program ends. Reading a closed stdin
    // and writing a closed stdout fail as before; what is printed to a closed stderr vanishes.
    const int flags = fd == 0 ? O_WRONLY : fd == 1 ? O_RDONLY : O_RDWR;
    if (::open("/dev/null", flags) != fd) return;
  }
}

int with_standard_output(std::string_view program, const std::function<int()>& command) {
  signal(SIGPIPE, SIG_IGN);
  // With a buffer, glibc reports a failed write by ferror() alone where the text fits into it.
  setvbuf(stdout, nullptr, _IONBF, 0);
  try {
    const int status = command();
    if (std::fflush(stdout) != 0) return report_lost(program, errno);
    return std::ferror(stdout) == 0 ? status : report_lost(program, 0);
  } catch (const std::system_error& error) {
    if (std::ferror(stdout) != 0) return report_lost(program, error.code().value());
    print_error(program, error.what());
    return kOutputLost;
  }
}

void print_error(std::string_view program, std::string_view text) {
  const std::string line = fmt::format("{}: {}\n", program, text);
  std::fputs(line.c_str(), stderr);
}

Status write_result(const std::string& path, const std::string& text) {
  if (path != "/dev/stdout") return write_output(path, text);
  if (std::fwrite(text.data(), 1, text.size(), stdout) < text.size() || std::fflush(stdout) != 0)
    throw_output_lost(errno);
  return ok_status();
}

void throw_output_lost(int error) {
  throw std::system_error(error, std::generic_category(), "cannot write to standard output");
}

}  // namespace rondo
