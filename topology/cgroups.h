// The control groups (v1 and v2) of a process, as folders of the hierarchies that are mounted here.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace rondo::topology {

struct CgroupFolder {
  std::string path;
  bool v2;
};

// The folders of the process's group and of its parents, from the bottom up, in all hierarchies
// that have the controller (v2's has all controllers). `process` is the process's folder in /proc.
// `root` is put before /proc and /sys.
std::vector<CgroupFolder> cgroup_folders(std::string_view controller,
                                         const std::string& process = "self",
                                         const std::string& root = "");

}  // namespace rondo::topology
