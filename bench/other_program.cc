// SPDX-License-Identifier: Apache-2.0
#include "bench/other_program.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <optional>

#include "base/fd.h"
#include "base/poll_until.h"
#include "base/printable.h"
#include "base/seconds.h"

namespace rondo {
namespace {

using Clock = std::chrono::steady_clock;
constexpr int kNoProgram = 127;
constexpr std::size_t kMaxOutput = 256 << 20;  // bytes
constexpr std::size_t kMaxErrors = 2000;       // bytes of its error output

// A file in memory, because a write to a pipe would wait for the reader.
Result<Fd> file_of(const std::string& text) {
  Fd file(memfd_create("input", MFD_CLOEXEC));
  if (!file) return fail_errno(errno, "cannot create a memory file for a program");
  for (std::size_t at = 0; at < text.size();) {
    const ssize_t put = write(file.get(), text.data() + at, text.size() - at);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return fail_errno(errno, "not enough memory for the input of a program");
    at += static_cast<std::size_t>(put);
  }
  lseek(file.get(), 0, SEEK_SET);
  return file;
}

class Child {
 public:
  explicit Child(int pid) : pid_(pid) {}
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() {
    if (pid_ < 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);  // does not block: it was killed
  }
  // Its waitpid() status; none: it is still running at the deadline.
  std::optional<int> end_by(Clock::time_point deadline) {
    int status = 0;
    const bool ended = poll_until([&] { return waitpid(pid_, &status, WNOHANG) != 0; }, deadline);
    if (!ended) return std::nullopt;
    pid_ = -1;
    return status;
  }

 private:
  int pid_;
};

// Runs in the child after fork.
[[noreturn]] void become(char* const* argv, const Fd& in, const Fd& out, const Fd& err) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  dup2(in.get(), 0);
  dup2(out.get(), 1);
  dup2(err.get(), 2);
  signal(SIGPIPE, SIG_DFL);
  execvp(argv[0], argv);
  _exit(kNoProgram);
}

// Reads both until both are closed. False: deadline exceeded, or too much output.
bool read_both(const Fd& out, const Fd& err, std::string& output, std::string& errors,
               Clock::time_point deadline) {
  std::array<pollfd, 2> ends = {{{out.get(), POLLIN, 0}, {err.get(), POLLIN, 0}}};
  const std::array<std::string*, 2> texts = {&output, &errors};
  std::array<char, 1 << 14> buffer;
  while (ends[0].fd >= 0 || ends[1].fd >= 0) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0 || output.size() > kMaxOutput) return false;
    poll(ends.data(), ends.size(), static_cast<int>(std::min<std::int64_t>(left, 1000)));
    for (std::size_t i = 0; i < ends.size(); ++i) {
      if (ends[i].fd < 0 || ends[i].revents == 0) continue;
      const ssize_t got = read(ends[i].fd, buffer.data(), buffer.size());
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) ends[i].fd = -1;
      if (got > 0 && (i == 0 || errors.size() < kMaxErrors))
        texts[i]->append(buffer.data(), static_cast<std::size_t>(got));
    }
  }
  return true;
}

}  // namespace

Result<ProgramResult> run_other_program(const OtherProgram& program, const std::string& text) {
  const auto deadline = seconds_from_now(program.seconds);
  RONDO_TRY(const Fd in, file_of(text));
  int out[2] = {-1, -1}, err[2] = {-1, -1};
  if (pipe2(out, O_CLOEXEC) != 0) return fail_errno(errno, "cannot create a pipe for a program");
  Fd out_end(out[0]), out_of_child(out[1]);
  if (pipe2(err, O_CLOEXEC) != 0) return fail_errno(errno, "cannot create a pipe for a program");
  Fd err_end(err[0]), err_of_child(err[1]);
  std::vector<char*> argv;
  for (const char* word : program.argv) argv.push_back(const_cast<char*>(word));
  argv.push_back(nullptr);
  const int pid = fork();
  if (pid < 0) return fail_errno(errno, "{} cannot be started", program.argv[0]);
  if (pid == 0) become(argv.data(), in, out_of_child, err_of_child);
  Child child(pid);
  out_of_child.reset();
  err_of_child.reset();
  ProgramResult result;
  const bool all = read_both(out_end, err_end, result.output, result.errors, deadline);
  const auto status = all ? child.end_by(deadline) : std::nullopt;
  const bool missing =
      status && WIFEXITED(*status) && WEXITSTATUS(*status) == kNoProgram && result.errors.empty();
  const bool done =
      status && WIFEXITED(*status) && WEXITSTATUS(*status) == 0 && !result.output.empty();
  result.errors = printable_lines(result.errors.substr(0, kMaxErrors));
  result.end = !status   ? ProgramResult::kLate
               : missing ? ProgramResult::kMissing
               : done    ? ProgramResult::kDone
                         : ProgramResult::kFailed;
  return result;
}

}  // namespace rondo
