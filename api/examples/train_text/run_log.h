// SPDX-License-Identifier: Apache-2.0
// RunLog: the log of a run, on the terminal and as JSON lines.
//
// Only the first rank of the team writes. Every rank remembers the losses: if the writer dies, the
// rank that takes over continues the file without a gap or a repetition.
#pragma once

#include <cstdint>
#include <cstdio>
#include <map>
#include <string>

namespace train {

struct StepReport {
  std::int64_t step = 0;
  double loss = 0;
  double tokens_per_second = 0;  // of all ranks; 0: unknown
  double exposed_seconds = 0;    // communication that the step waited for
  int ranks = 0;
};

class RunLog {
 public:
  explicit RunLog(std::string json_path) : json_path_(std::move(json_path)) {}
  ~RunLog() { close(); }
  RunLog(const RunLog&) = delete;
  RunLog& operator=(const RunLog&) = delete;

  void remember(const StepReport& report) { history_[report.step] = report; }
  void forget_before(std::int64_t step) {
    history_.erase(history_.begin(), history_.lower_bound(step));
  }

  // Called by the rank that writes from now on: keeps the file's lines up to `step` (if 0: none)
  // and adds remembered lines that are missing. Returns "" on success, else why it failed.
  std::string take_over(std::int64_t step);
  bool writes() const { return json_ != nullptr; }
  void write(const StepReport& report);
  void write_shrink(std::int64_t step, int died, int ranks);

 private:
  void close();

  std::string json_path_;
  std::FILE* json_ = nullptr;
  std::map<std::int64_t, StepReport> history_;
};

}  // namespace train
