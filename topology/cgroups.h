// Where a process stands in the control groups (v1 and v2) that are mounted here.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace rondo::topology {

struct CgroupFolder {
  std::string path;
  bool v2;
};

// The folders of the process's group and of those above it, from the bottom up, in the hierarchies
// that have the controller (v2's has all of them). `process` is its folder in /proc, `root` stands
// before /proc and /sys.
std::vector<CgroupFolder> cgroup_folders(std::string_view controller,
                                         const std::string& process = "self",
                                         const std::string& root = "");

}  // namespace rondo::topology
