// SPDX-License-Identifier: Apache-2.0
#include "run_log.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <vector>

namespace train {

std::string RunLog::take_over(std::int64_t step) {
  close();
  if (json_path_.empty()) return {};
  std::vector<std::string> kept;
  std::int64_t newest = 0;
  if (step > 0) {
    std::ifstream old(json_path_);
    for (std::string line; std::getline(old, line);) {
      long long of_line = 0;
      if (line.empty() || line.back() != '}') break;  // its writer died while writing it
      if (std::sscanf(line.c_str(), "{\"step\": %lld", &of_line) != 1 || of_line > step) continue;
      newest = of_line;
      kept.push_back(line);
    }
  }
  const std::string beside = json_path_ + ".tmp";
  json_ = std::fopen(beside.c_str(), "we");
  if (json_ == nullptr) return "cannot create " + beside + ": " + std::strerror(errno);
  for (const std::string& line : kept) std::fprintf(json_, "%s\n", line.c_str());
  for (auto at = history_.upper_bound(newest); at != history_.end() && at->first <= step; ++at)
    write(at->second);
  std::fflush(json_);
  if (std::rename(beside.c_str(), json_path_.c_str()) != 0)
    return "cannot create " + json_path_ + ": " + std::strerror(errno);
  return {};
}

void RunLog::write(const StepReport& report) {
  if (json_ == nullptr) return;
  std::fprintf(json_,
               "{\"step\": %lld, \"loss\": %.17g, \"tokens_per_second\": %.1f, "
               "\"exposed_ms\": %.3f, \"ranks\": %d}\n",
               static_cast<long long>(report.step), report.loss, report.tokens_per_second,
               1e3 * report.exposed_seconds, report.ranks);
  std::fflush(json_);
}

void RunLog::write_shrink(std::int64_t step, int died, int ranks) {
  if (json_ == nullptr) return;
  std::fprintf(json_, "{\"step\": %lld, \"event\": \"shrink\", \"died\": %d, \"ranks\": %d}\n",
               static_cast<long long>(step), died, ranks);
  std::fflush(json_);
}

void RunLog::close() {
  if (json_ != nullptr) std::fclose(json_);
  json_ = nullptr;
}

}  // namespace train
