// SPDX-License-Identifier: Apache-2.0
// Logs of each rank of a test, in the test's own folder.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "base/log.h"

namespace rondo::test {

class RankLogs {
 public:
  RankLogs() {
    char pattern[] = "/tmp/rondo-logs-XXXXXX";
    folder_ = mkdtemp(pattern);
  }
  ~RankLogs() { std::filesystem::remove_all(folder_); }
  RankLogs(const RankLogs&) = delete;
  RankLogs& operator=(const RankLogs&) = delete;

  // Called by the rank, in its own process.
  void use(int rank) const {
    setenv("NCCL_DEBUG", "INFO", 1);
    setenv("NCCL_DEBUG_FILE", file(rank).c_str(), 1);
    log::reset();
  }
  // Number of the rank's lines that contain `what`; *last is the last of them.
  int count(int rank, const std::string& what, std::string* last = nullptr) const {
    std::ifstream in(file(rank));
    int found = 0;
    for (std::string line; std::getline(in, line);)
      if (line.find(what) != std::string::npos) {
        ++found;
        if (last != nullptr) *last = line;
      }
    return found;
  }

  std::string file(int rank) const { return folder_ + "/" + std::to_string(rank); }

 private:
  std::string folder_;
};

}  // namespace rondo::test
