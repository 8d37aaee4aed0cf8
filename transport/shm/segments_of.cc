// SPDX-License-Identifier: Apache-2.0
#include "transport/shm/segments_of.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <memory>
#include <set>
#include <string_view>
#include <utility>

namespace rondo::shm {

namespace {

// target: what the link of a descriptor points to.
bool is_file(std::string_view target, std::string_view name) {
  return target == fmt::format("/memfd:{} (deleted)", name);
}

}  // namespace

Result<std::vector<std::string>> segments_of(int pid) {
  const std::string folder = fmt::format("/proc/{}/fd", pid);
  const std::unique_ptr<DIR, int (*)(DIR*)> directory(opendir(folder.c_str()), closedir);
  if (!directory) {
    if (errno == ENOENT) return fail(StatusCode::kInvalidArgument, "there is no process {}", pid);
    if (errno == EACCES || errno == EPERM)
      return fail(StatusCode::kSystemError,
                  "process {} belongs to another user: ask as that user, or as root", pid);
    return fail_errno(errno, "cannot read {}", folder);
  }
  std::vector<std::pair<int, std::string>> own, watched;
  std::set<ino_t> seen;
  while (const dirent* entry = readdir(directory.get())) {
    const std::string path = folder + '/' + entry->d_name;
    char target[64] = "";
    if (readlink(path.c_str(), target, sizeof(target) - 1) < 0) continue;
    struct stat info {};
    const bool is_watched = is_file(target, kWatchedFile);
    if ((!is_watched && !is_file(target, kSegmentFile)) || stat(path.c_str(), &info) != 0 ||
        !seen.insert(info.st_ino).second)
      continue;
    (is_watched ? watched : own).emplace_back(std::atoi(entry->d_name), path);
  }
  auto& found = watched.empty() ? own : watched;
  std::sort(found.begin(), found.end());
  std::vector<std::string> paths;
  for (auto& [number, path] : found) paths.push_back(std::move(path));
  return paths;
}

}  // namespace rondo::shm
