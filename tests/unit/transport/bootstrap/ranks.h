// SPDX-License-Identifier: Apache-2.0
// Ranks for the bootstrap tests: runs one function on threads or in forked processes. Once an
// assertion of a process fails, as_processes() ends all of them and names that rank.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "tests/support/threads.h"
#include "transport/bootstrap/session.h"

namespace rondo::bootstrap {

using RankFunction = std::function<Status(int rank)>;

inline std::vector<Status> as_threads(int count, const RankFunction& function) {
  std::vector<Status> results(static_cast<std::size_t>(count));
  test::on_threads(count, [&](int rank) { results[rank] = function(rank); });
  return results;
}

// A forked process that runs one rank; a pipe returns its result.
class RankProcess {
 public:
  RankProcess(int rank, const RankFunction& function) {
    const bool failed_before = testing::Test::HasFailure();
    int ends[2];
    if (pipe(ends) != 0) abort();
    pid_ = fork();
    if (pid_ == 0) {
      alarm(300);  // no orphan outlives a failed test
      close(ends[0]);
      const Status result = function(rank);
      const bool asserted = testing::Test::HasFailure() && !failed_before;
      const int status = asserted ? kAsserted : static_cast<int>(result.code());
      const std::string text = result.ok() ? "" : result.error().text;
      [[maybe_unused]] auto count = write(ends[1], &status, sizeof(status));
      count = write(ends[1], text.data(), text.size());
      _exit(0);
    }
    close(ends[1]);
    read_ = ends[0];
  }
  ~RankProcess() {
    if (pid_ > 0) kill(SIGKILL), (void)wait();
    close(read_);
  }
  RankProcess(const RankProcess&) = delete;
  RankProcess& operator=(const RankProcess&) = delete;

  void kill(int signal) {
    if (pid_ > 0) ::kill(pid_, signal);
  }

  // Readable once the process has a result, or has ended.
  pollfd entry() const { return {read_, POLLIN, 0}; }
  // Whether an assertion of it had failed, once wait() has returned.
  bool asserted() const { return asserted_; }
  // kInternalError "ended without a result" if the process was killed.
  Status wait() {
    int status = -1;
    Error error = fail(StatusCode::kInternalError, "ended without a result");
    if (read(read_, &status, sizeof(status)) == sizeof(status)) {
      asserted_ = status == kAsserted;
      error = asserted_ ? fail(StatusCode::kInternalError, "an assertion of it failed; ")
                        : Error{static_cast<StatusCode>(status), ""};
      char buffer[4096];
      for (ssize_t count; (count = read(read_, buffer, sizeof(buffer))) > 0;)
        error.text.append(buffer, static_cast<std::size_t>(count));
    }
    int ignored = 0;
    while (waitpid(pid_, &ignored, 0) < 0 && errno == EINTR) {
    }
    pid_ = -1;
    if (error.code == StatusCode::kSuccess) return ok_status();
    return error;
  }

 private:
  static constexpr int kAsserted = -2;  // in place of a status code

  pid_t pid_ = -1;
  int read_ = -1;
  bool asserted_ = false;
};

struct EndedProcesses {
  std::vector<Status> results;
  int asserted = -1;  // the first rank of which an assertion failed; the others were killed then
};

inline EndedProcesses run_processes(int count, const RankFunction& function) {
  std::vector<std::unique_ptr<RankProcess>> processes;
  for (int rank = 0; rank < count; ++rank)
    processes.push_back(std::make_unique<RankProcess>(rank, function));
  std::vector<pollfd> entries;
  for (const auto& process : processes) entries.push_back(process->entry());
  EndedProcesses ended;
  ended.results.resize(processes.size());
  for (int left = count; left > 0;) {
    (void)poll(entries.data(), entries.size(), -1);
    for (int rank = 0; rank < count; ++rank) {
      pollfd& entry = entries[static_cast<std::size_t>(rank)];
      if (std::exchange(entry.revents, static_cast<short>(0)) == 0) continue;
      entry.fd = -1;
      --left;
      RankProcess& process = *processes[static_cast<std::size_t>(rank)];
      ended.results[static_cast<std::size_t>(rank)] = process.wait();
      if (!process.asserted() || ended.asserted >= 0) continue;
      ended.asserted = rank;
      for (const auto& other : processes) other->kill(SIGKILL);
    }
  }
  return ended;
}

inline std::vector<Status> as_processes(int count, const RankFunction& function) {
  EndedProcesses ended = run_processes(count, function);
  if (ended.asserted >= 0)
    ADD_FAILURE() << "an assertion of rank " << ended.asserted << " failed: all were ended";
  return std::move(ended.results);
}

inline bool contains(const Status& result, const std::string& part) {
  return !result.ok() && result.error().text.find(part) != std::string::npos;
}

inline std::string shown(const Status& result) {
  return result.ok() ? "ok"
                     : fmt::format("{}: {}", static_cast<int>(result.code()), result.error().text);
}

inline Status join_as(const UniqueId& id, int rank, int size,
                      std::chrono::nanoseconds timeout = std::chrono::seconds(100)) {
  RONDO_TRY(const auto session,
            Session::join({.rank = rank, .size = size, .id = id, .timeout = timeout}));
  return ok_status();
}

inline void expect_all_ok(const std::vector<Status>& results) {
  for (std::size_t rank = 0; rank < results.size(); ++rank)
    EXPECT_TRUE(results[rank].ok()) << "rank " << rank << ": " << results[rank].error().text;
}

}  // namespace rondo::bootstrap
