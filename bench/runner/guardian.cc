// SPDX-License-Identifier: Apache-2.0
#include "bench/runner/guardian.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <optional>

#include "base/text_file.h"
#include "bench/runner/job_output.h"
#include "bench/runner/rank_process.h"

namespace rondo::runner {
namespace {

using Clock = std::chrono::steady_clock;

int free_port() {
  const Fd probe(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  if (bind(probe.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 ||
      getsockname(probe.get(), reinterpret_cast<sockaddr*>(&address), &length) != 0)
    return 29500;
  return ntohs(address.sin_port);
}

class Guardian {
 public:
  Guardian(const JobOptions& options, const sigset_t& program_mask)
      : options_(options), program_mask_(program_mask), output_(options.prefix) {}

  int run(int caller) {
    const int caller_died = SIGRTMIN + 1;
    sigset_t handled = forwarded_signals();
    sigaddset(&handled, SIGCHLD);
    sigaddset(&handled, caller_died);
    sigprocmask(SIG_BLOCK, &handled, nullptr);
    setpgid(0, 0);  // the terminal signals only the caller, which forwards
    signal(SIGTTOU, SIG_IGN);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    prctl(PR_SET_PDEATHSIG, caller_died);
    if (getppid() != caller) return 128 + SIGKILL;
    if (!open_logs()) return 1;
    signals_.reset(signalfd(-1, &handled, SFD_CLOEXEC | SFD_NONBLOCK));
    if (!signals_ || !start_all()) {
      report("cannot start {} processes: {}", options_.ranks, strerror(errno));
      end_at_once();
      return 1;
    }
    while (alive_ > 0 && !caller_died_) {
      wait_and_serve();
      for (int signal : take_signals()) {
        if (signal == caller_died)
          caller_died_ = true;
        else if (signal != SIGCHLD)
          forward(signal);
      }
      reap();
      if (output_.write_error() != 0 && !ending_) end_without_output();
      step_ending();
    }
    end_at_once();
    if (!caller_died_) drain();
    if (output_.write_error() != 0 && !ending_) end_without_output();
    return exit_status();
  }

 private:
  struct Rank {
    int pid;
    bool alive;
  };

  bool open_logs() {
    if (options_.log_folder.empty()) return true;
    for (int rank = 0; rank < options_.ranks; ++rank) {
      const std::string path = fmt::format("{}/{}.log", options_.log_folder, rank);
      auto file = open_output(path, OutputMode::kReplace);
      if (!file.ok()) return report("{}", file.error().text), false;
      output_.log(rank, std::move(*file), path);
    }
    return true;
  }

  bool start_all() {
    std::uint64_t job = 0;
    if (getrandom(&job, sizeof job, 0) != sizeof job) return false;
    const std::string secret = secret_of_job();
    if (secret.empty()) return false;
    const int port = options_.master_port != 0 ? options_.master_port : free_port();
    for (int rank = 0; rank < options_.ranks; ++rank) {
      RankStart start{
          .argv = &options_.argv,
          .environment = {fmt::format("RANK={}", rank),
                          fmt::format("WORLD_SIZE={}", options_.ranks),
                          fmt::format("LOCAL_RANK={}", rank),
                          fmt::format("LOCAL_WORLD_SIZE={}", options_.ranks),
                          "MASTER_ADDR=127.0.0.1", fmt::format("MASTER_PORT={}", port),
                          fmt::format("RONDO_JOB={:016x}", job), "RONDO_SECRET=" + secret},
          .keep_stdin = rank == 0 && isatty(0) == 0,
          .pipes = !options_.passthrough,
          .signal_mask = program_mask_,
          .cpus = options_.cpus.empty() ? nullptr : &options_.cpus[static_cast<std::size_t>(rank)]};
      RankProcess process = start_rank(start);
      if (process.pid < 0) return false;
      ranks_.push_back({process.pid, true});
      ++alive_;
      if (process.out) output_.add(rank, 1, std::move(process.out));
      if (process.err) output_.add(rank, 2, std::move(process.err));
    }
    return true;
  }

  void wait_and_serve() {
    std::vector<pollfd> polls;
    output_.ask(polls);
    polls.push_back({signals_.get(), POLLIN, 0});
    int timeout = -1;
    if (const auto next = terminate_at_ ? terminate_at_ : kill_at_) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(*next - Clock::now());
      // After KILL only deaths are left to wait for: poll every 100 ms.
      timeout = left.count() > 0 ? static_cast<int>(left.count()) : 100;
    }
    if (poll(polls.data(), polls.size(), timeout) <= 0) return;
    polls.pop_back();
    output_.serve(polls);
  }

  std::vector<int> take_signals() {
    std::vector<int> taken;
    for (signalfd_siginfo info; read(signals_.get(), &info, sizeof info) == sizeof info;)
      taken.push_back(static_cast<int>(info.ssi_signo));
    return taken;
  }

  void signal_all(int signal) {
    for (const Rank& rank : ranks_)
      if (rank.alive) kill(-rank.pid, signal);
  }

  void forward(int signal) {
    // A second request to end, while the ranks still handle the first one, starts the grace period.
    if (signal == SIGINT || signal == SIGTERM) {
      if (end_requested_ && !ending_) end_job(128 + signal, "asked twice");
      end_requested_ = true;
    }
    signal_all(signal == SIGTSTP ? SIGSTOP : signal);
    if (signal == SIGINT || signal == SIGTERM || signal == SIGHUP) signal_all(SIGCONT);
  }

  // An empty `why` prints nothing.
  void end_job(int status, std::string_view why) {
    ending_ = true;
    if (!failure_) failure_ = status;
    if (alive_ > 0 && !why.empty()) report("{}: ending the {} other ranks", why, alive_);
    const bool asked = end_requested_ || output_.write_error() != 0;
    terminate_at_ = Clock::now() + seconds(asked ? 0 : options_.patience_seconds);
    step_ending();
  }

  // Our reader has gone, as in rondo run ... | head -1, or the disk is full.
  void end_without_output() {
    const int error = output_.write_error();
    if (error != EPIPE) report("cannot write to standard output: {}", strerror(error));
    end_job(error == EPIPE ? 128 + SIGPIPE : 1, "");
  }

  // Sends TERM and, after the grace period, KILL when they are due.
  void step_ending() {
    const auto now = Clock::now();
    if (terminate_at_ && now >= *terminate_at_) {
      terminate_at_.reset();
      signal_all(SIGTERM);
      signal_all(SIGCONT);  // a stopped rank must wake to end
      kill_at_ = now + seconds(options_.grace_seconds);
    }
    if (kill_at_ && now >= *kill_at_) signal_all(SIGKILL);
  }

  static Clock::duration seconds(double count) {
    return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(count));
  }

  void reap() {
    for (;;) {
      siginfo_t info{};
      if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0) return;
      const auto rank = std::find_if(ranks_.begin(), ranks_.end(), [&](const Rank& r) {
        return r.alive && r.pid == info.si_pid;
      });
      // Kills the rest of the rank's group; while the rank is a zombie, its group id is not reused.
      if (rank != ranks_.end()) kill(-rank->pid, SIGKILL);
      int status = 0;
      waitpid(info.si_pid, &status, 0);
      if (rank == ranks_.end()) continue;  // adopted
      rank->alive = false;
      --alive_;
      ended(static_cast<int>(rank - ranks_.begin()), status);
    }
  }

  void ended(int rank, int status) {
    std::string how;
    if (WIFSIGNALED(status)) {
      const int signal = WTERMSIG(status);
      how = fmt::format("rank {} was ended by signal {} ({})", rank, signal, strsignal(signal));
      if (!killed_) killed_ = 128 + signal;
    } else if (WEXITSTATUS(status) != 0) {
      how = fmt::format("rank {} exited with status {}", rank, WEXITSTATUS(status));
      if (!exited_nonzero_) exited_nonzero_ = WEXITSTATUS(status);
    } else {
      any_success_ = true;
      return;
    }
    output_.settle();  // the rank's last lines come before ours
    const int code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    if (options_.keep_going) {
      if (!failure_) failure_ = code;
      report("{}; {} go on", how, alive_);
    } else if (!ending_) {
      const bool silent = options_.quiet && !WIFSIGNALED(status);
      if (alive_ == 0 && !silent) report("{}", how);
      end_job(code, silent ? "" : how);
    }
  }

  void end_at_once() {
    signal_all(SIGKILL);
    kill_descendants();
  }

  // Forwards the ranks' remaining output. Ends after a second without progress, or on a signal.
  void drain() {
    auto last_progress = Clock::now();
    while (output_.sources_open() || output_.pending()) {
      std::vector<pollfd> polls;
      output_.ask(polls);
      if (poll(polls.data(), polls.size(), 100) > 0) last_progress = Clock::now();
      output_.serve(polls);
      for (int signal : take_signals())
        if (signal != SIGCHLD) return;
      const bool reader_slow = output_.pending();
      if (!reader_slow && Clock::now() - last_progress > std::chrono::seconds(1)) {
        output_.close_sources();
        if (!output_.pending()) return;
      }
    }
  }

  int exit_status() const {
    if (caller_died_) return 128 + SIGKILL;
    if (options_.keep_going && !ending_) {
      if (exited_nonzero_) return *failure_;
      return any_success_ ? 0 : killed_.value_or(0);
    }
    return failure_.value_or(0);
  }

  template <class... Args>
  void report(fmt::format_string<Args...> format, Args&&... args) const {
    const std::string line =
        fmt::format("rondo run: {}\n", fmt::format(format, std::forward<Args>(args)...));
    if (write(2, line.data(), line.size()) < 0) return;
  }

  const JobOptions& options_;
  const sigset_t program_mask_;
  JobOutput output_;
  Fd signals_;
  std::vector<Rank> ranks_;
  int alive_ = 0;
  bool caller_died_ = false;
  bool end_requested_ = false;
  bool ending_ = false;
  bool any_success_ = false;
  std::optional<int> failure_, killed_, exited_nonzero_;
  std::optional<Clock::time_point> terminate_at_, kill_at_;
};

}  // namespace

int guard(const JobOptions& options, int caller, const sigset_t& program_mask) {
  return Guardian(options, program_mask).run(caller);
}

}  // namespace rondo::runner
