// SPDX-License-Identifier: Apache-2.0
#include "runner.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <ctime>

#include "answer.h"

namespace probe {
namespace {

double now() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

struct Child {
  pid_t pid = -1;
  int output = -1;  // its standard output
};

Child start(const char* name) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return {};
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid == 0) {
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1);
    const int nothing = open("/dev/null", O_RDONLY);
    dup2(nothing, STDIN_FILENO);
    dup2(ends[1], STDOUT_FILENO);
    execl("/proc/self/exe", "gpu_probe", "--ask", name, static_cast<char*>(nullptr));
    _exit(127);
  }
  close(ends[1]);
  if (pid < 0) {
    close(ends[0]);
    return {};
  }
  setpgid(pid, pid);
  fcntl(ends[0], F_SETFL, O_NONBLOCK);
  return {pid, ends[0]};
}

void take_line(const std::string& line, Outcome& outcome) {
  const Json output = Json::parse(line, nullptr, false);
  if (!output.is_object()) return;
  if (output.contains("put")) {
    Json& value = outcome.values[output["put"].get<std::string>()];
    value = output["value"];
    if (const std::string unit = output.value("unit", ""); !unit.empty())
      value = {{"value", output["value"]}, {"unit", unit}};
  } else if (output.contains("answer")) {
    outcome.answer = output["answer"].get<std::string>();
  } else if (output.contains("check")) {
    Json& checked = outcome.checked[output["check"].get<std::string>()];
    const bool held = checked.is_null() || checked["holds"].get<bool>();
    if (held) checked = {{"holds", output["holds"]}, {"seen", output["seen"]}};
  } else if (output.contains("error") && outcome.reason.empty()) {
    outcome.reason = output["error"].get<std::string>();
  }
}

void take_output(int output, std::string& text, Outcome& outcome) {
  char part[4096];
  for (ssize_t got; (got = read(output, part, sizeof(part))) > 0;)
    text.append(part, static_cast<std::size_t>(got));
  for (std::size_t end; (end = text.find('\n')) != std::string::npos; text.erase(0, end + 1))
    take_line(text.substr(0, end), outcome);
}

// True if it has ended and has not been waited for.
bool has_ended(pid_t pid) {
  siginfo_t info{};
  return waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
         info.si_pid == pid;
}

bool ends_within(pid_t pid, double seconds) {
  const double end = now() + seconds;
  while (!has_ended(pid)) {
    if (now() > end) return false;
    usleep(5000);
  }
  return true;
}

void name_end(int status, Outcome& outcome) {
  const auto because = [&](const std::string& why) {
    if (outcome.reason.empty()) outcome.reason = why;
  };
  if (WIFSIGNALED(status)) {
    outcome.status = "failed";
    because(print("ended by signal %d (%s)", WTERMSIG(status), strsignal(WTERMSIG(status))));
  } else if (WEXITSTATUS(status) == kUnsupported) {
    outcome.status = "unsupported";
  } else if (WEXITSTATUS(status) != 0) {
    outcome.status = "failed";
    because(print("ended with status %d", WEXITSTATUS(status)));
  } else {
    outcome.status = "ok";
  }
}

}  // namespace

Outcome run_question(const Question& question, double limit, const volatile sig_atomic_t& stop) {
  Outcome outcome;
  const double begin = now();
  const Child child = start(question.name);
  if (child.pid < 0) {
    outcome.status = "failed";
    outcome.reason = std::string("no process could be started: ") + std::strerror(errno);
    return outcome;
  }
  std::string text;
  bool ended = false;
  while (!(ended = has_ended(child.pid)) && stop == 0 && now() - begin < limit) {
    pollfd event{child.output, POLLIN, 0};
    poll(&event, 1, 50);
    take_output(child.output, text, outcome);
    if ((event.revents & POLLHUP) != 0) usleep(2000);
  }
  kill(-child.pid, SIGKILL);  // and its children
  const bool died = ended || ends_within(child.pid, 5);
  int status = 0;
  if (died) waitpid(child.pid, &status, 0);
  take_output(child.output, text, outcome);
  close(child.output);
  outcome.seconds = now() - begin;
  if (ended) {
    name_end(status, outcome);
  } else {
    outcome.status = stop != 0 ? "failed" : "hung";
    outcome.reason = stop != 0 ? "the probe was told to stop"
                               : print("not over after %.0f s%s%s", limit,
                                       outcome.reason.empty() ? "" : ": ", outcome.reason.c_str());
    if (!died) outcome.reason += "; it does not die, so it is inside the driver";
  }
  return outcome;
}

}  // namespace probe
