// What each rank of a test logs, in a folder of the test's own.
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

  // By the rank, in a process of its own.
  void use(int rank) const {
    setenv("NCCL_DEBUG", "INFO", 1);
    setenv("NCCL_DEBUG_FILE", file(rank).c_str(), 1);
    log::reset();
  }
  // Lines of the rank that say `what`, and the last of them.
  int count(int rank, const std::string& what, std::string* last) const {
    std::ifstream in(file(rank));
    int found = 0;
    for (std::string line; std::getline(in, line);)
      if (line.find(what) != std::string::npos) ++found, *last = line;
    return found;
  }

  std::string file(int rank) const { return folder_ + "/" + std::to_string(rank); }

 private:
  std::string folder_;
};

}  // namespace rondo::test
