// SPDX-License-Identifier: Apache-2.0
#include "trainer_job.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

namespace trainer_test {
namespace {

constexpr std::chrono::minutes kLimit{5};  // for what must come
constexpr int kRunning = -1, kLate = 999;

using Clock = std::chrono::steady_clock;

void pause() { std::this_thread::sleep_for(std::chrono::milliseconds(1)); }

std::string text_to_learn() {
  const char* const subjects[] = {"the ring", "a tree", "one rank", "every queue"};
  const char* const verbs[] = {"passes", "sums", "awaits", "keeps"};
  const char* const objects[] = {"its parts", "the slots", "what is left", "all credits"};
  std::string text;
  for (int i = 0; i < 400; ++i)
    text +=
        std::string(subjects[i % 4]) + " " + verbs[i / 3 % 4] + " " + objects[i / 7 % 4] + ".\n";
  return text;
}

std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

[[noreturn]] void become_rank(const Arguments& arguments, int rank, int ranks,
                              const std::string& job, const std::string& output) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const int fd = open(output.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0644);
  dup2(fd, 1);
  dup2(fd, 2);
  const auto set = [](const char* name, const std::string& value) {
    setenv(name, value.c_str(), 1);
  };
  set("RANK", std::to_string(rank));
  set("LOCAL_RANK", std::to_string(rank));
  set("WORLD_SIZE", std::to_string(ranks));
  set("LOCAL_WORLD_SIZE", std::to_string(ranks));
  set("RONDO_JOB", job);
  set("RONDO_TIMEOUT", "120");
  std::vector<char*> argv{const_cast<char*>(TRAIN_TEXT)};
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  execv(TRAIN_TEXT, argv.data());
  _exit(127);
}

}  // namespace

Workplace::Workplace() {
  std::string name = std::filesystem::temp_directory_path().string() + "/rondo-trainer-XXXXXX";
  path_ = mkdtemp(name.data()) != nullptr ? name : "";
  std::ofstream(file("text")) << text_to_learn();
}

Workplace::~Workplace() {
  std::error_code ignored;
  if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
}

TrainerJob::TrainerJob(const Workplace& place, int ranks, const Arguments& more) : place_(place) {
  Arguments arguments{"--text",      place.file("text"),
                      "--batch",     "64",
                      "--embedding", "8",
                      "--hidden",    "32",
                      "--context",   "8",
                      "--log-every", "1"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  static int started = 0;
  const std::string job = std::to_string(getpid()) + "." + std::to_string(++started);
  std::filesystem::remove(place.file("output"));
  for (int rank = 0; rank < ranks; ++rank) {
    const pid_t pid = fork();
    if (pid == 0) become_rank(arguments, rank, ranks, job, place.file("output"));
    pids_.push_back(pid);
    statuses_.push_back(kRunning);
  }
}

TrainerJob::~TrainerJob() {
  for (std::size_t r = 0; r < pids_.size(); ++r)
    if (statuses_[r] == kRunning) ::kill(pids_[r], SIGKILL);
  for (std::size_t r = 0; r < pids_.size(); ++r)
    if (statuses_[r] == kRunning) waitpid(pids_[r], nullptr, 0);
}

bool TrainerJob::all_ended() {
  bool all = true;
  for (std::size_t r = 0; r < pids_.size(); ++r) {
    int status = 0;
    if (statuses_[r] != kRunning) continue;
    if (waitpid(pids_[r], &status, WNOHANG) == pids_[r]) {
      statuses_[r] = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    } else {
      all = false;
    }
  }
  return all;
}

bool TrainerJob::wait_for_step(std::int64_t step) {
  char line[64];
  std::snprintf(line, sizeof line, "step %6lld  loss", static_cast<long long>(step));
  for (const auto until = Clock::now() + kLimit; Clock::now() < until; pause()) {
    if (output().find(line) != std::string::npos) return true;
    if (all_ended()) return false;
  }
  return false;
}

void TrainerJob::kill(int rank) {
  if (!all_ended() && statuses_[rank] == kRunning) ::kill(pids_[rank], SIGKILL);
}

std::vector<int> TrainerJob::wait() {
  for (const auto until = Clock::now() + kLimit; !all_ended() && Clock::now() < until;) pause();
  for (std::size_t r = 0; r < pids_.size(); ++r) {
    if (statuses_[r] != kRunning) continue;
    ::kill(pids_[r], SIGKILL);
    waitpid(pids_[r], nullptr, 0);
    statuses_[r] = kLate;
  }
  return statuses_;
}

std::string TrainerJob::output() const { return read_file(place_.file("output")); }

Outcome outcome(const TrainerJob& job) {
  Outcome found;
  std::istringstream lines(job.output());
  for (std::string line; std::getline(lines, line);) {
    long long step = 0;
    char loss[64];
    if (line.rfind("done: ", 0) == 0) found.done = line;
    if (std::sscanf(line.c_str(), "step %lld loss %63s", &step, loss) != 2) continue;
    EXPECT_EQ(found.losses.emplace(step, loss).first->second, loss) << "step " << step;
  }
  return found;
}

Outcome run(const Workplace& place, int ranks, const Arguments& more) {
  TrainerJob job(place, ranks, more);
  EXPECT_EQ(job.wait(), std::vector<int>(ranks, 0)) << job.output();
  return outcome(job);
}

}  // namespace trainer_test
