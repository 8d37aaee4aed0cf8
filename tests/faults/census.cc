// SPDX-License-Identifier: Apache-2.0
#include "tests/faults/census.h"

#include <dirent.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>

#include "tests/faults/injector.h"

namespace rondo::test {
namespace {

template <class Each>
void each_entry(const char* path, Each each) {
  DIR* dir = opendir(path);
  if (dir == nullptr) return;
  while (const dirent* entry = readdir(dir))
    if (entry->d_name[0] != '.' && std::atoi(entry->d_name) != dirfd(dir)) each(entry->d_name);
  closedir(dir);
}

// Without the inode number: a new socket counts the same as the old one.
std::string kind_of_file(const std::string& path) {
  char target[256] = "";
  const ssize_t length = readlink(path.c_str(), target, sizeof(target) - 1);
  const std::string text(target, static_cast<std::size_t>(std::max<ssize_t>(length, 0)));
  return text.substr(0, text.find(":["));
}

}  // namespace

Census Census::now() {
  Census found;
  each_entry("/proc/self/fd", [&](const char* name) {
    found.descriptors.push_back(kind_of_file(std::string("/proc/self/fd/") + name));
  });
  std::sort(found.descriptors.begin(), found.descriptors.end());
  each_entry("/proc/self/task", [&](const char*) { ++found.threads; });
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);)
    if (line.find("/memfd:") != std::string::npos) ++found.shared_mappings;
  found.own_mappings = live_mappings();
  return found;
}

std::string Census::growth_since(const Census& before) {
  // A rendezvous with missing ranks stays open for latecomers, for RONDO_INIT_TIMEOUT.
  constexpr int kTurns = 12'000;  // two minutes, if something stays
  std::string growth;
  for (int turn = 0; turn < kTurns; ++turn) {
    growth.clear();
    const Census after = now();
    std::vector<std::string> more;
    std::set_difference(after.descriptors.begin(), after.descriptors.end(),
                        before.descriptors.begin(), before.descriptors.end(),
                        std::back_inserter(more));
    for (const std::string& each : more) growth += fmt::format(" descriptor of {};", each);
    const auto grown = [&](const char* what, long then, long today) {
      if (today > then) growth += fmt::format(" {} {} instead of {};", today, what, then);
    };
    grown("mappings of shared memory", before.shared_mappings, after.shared_mappings);
    grown("mappings of its own", before.own_mappings, after.own_mappings);
    grown("threads", before.threads, after.threads);
    if (growth.empty()) return growth;
    usleep(10'000);
  }
  return growth;
}

}  // namespace rondo::test
