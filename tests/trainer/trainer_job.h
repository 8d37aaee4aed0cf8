// SPDX-License-Identifier: Apache-2.0
// TrainerJob: ranks of train_text as processes, as a launcher starts them, in a temporary directory
// that the destructor removes. Every wait is bounded.
//
//   Workplace place;
//   TrainerJob job(place, 4, {"--steps", "20"});
//   job.wait_for_step(5); job.kill(2);
//   EXPECT_EQ(job.wait(), std::vector<int>({0, 0, 128 + SIGKILL, 0})) << job.output();
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace trainer_test {

// A temporary directory with a training text.
class Workplace {
 public:
  Workplace();
  ~Workplace();
  Workplace(const Workplace&) = delete;
  Workplace& operator=(const Workplace&) = delete;
  std::string file(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

using Arguments = std::vector<std::string>;

class TrainerJob {
 public:
  // A small model on the workplace's text, which prints every step; `more` overrides.
  TrainerJob(const Workplace& place, int ranks, const Arguments& more);
  ~TrainerJob();  // kills what is left
  TrainerJob(const TrainerJob&) = delete;
  TrainerJob& operator=(const TrainerJob&) = delete;

  // Waits until this step is printed (true), or everything has ended (false).
  bool wait_for_step(std::int64_t step);
  void kill(int rank);
  // Exit statuses by rank, 128 + signal for a signal; 999 for a rank that did not end in time.
  std::vector<int> wait();
  std::string output() const;

 private:
  bool all_ended();

  const Workplace& place_;
  std::vector<pid_t> pids_;
  std::vector<int> statuses_;
};

// What a job has printed: step to loss, and the last line, which has a hash of the parameters. A
// step that survivors repeat is printed twice; the test fails if its losses differ.
struct Outcome {
  std::map<std::int64_t, std::string> losses;
  std::string done;
};
Outcome outcome(const TrainerJob& job);

// Runs to the end, and expects that all ranks succeed.
Outcome run(const Workplace& place, int ranks, const Arguments& more);

}  // namespace trainer_test
