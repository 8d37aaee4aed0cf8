#include "topology/cgroups.h"

#include "topology/small_file.h"

namespace rondo::topology {
namespace {

bool has_word(std::string_view list, std::string_view word) {
  while (!list.empty()) {
    if (take_until(list, ',') == word) return true;
  }
  return false;
}

// A process's group in one hierarchy.
struct Group {
  bool v2 = false;
  std::string path;         // as in /proc/PID/cgroup
  std::string mount_point;  // of the hierarchy; empty: not mounted
  std::string mount_root;   // the group that the mount point shows
};

// /proc/PID/cgroup: "ID:CONTROLLERS:PATH"; version 2 has id 0 and no controllers.
std::vector<Group> groups_of_process(std::string_view text, std::string_view controller) {
  std::vector<Group> groups;
  for_each_line(text, [&](std::string_view line) {
    const std::string_view id = take_until(line, ':');
    const std::string_view controllers = take_until(line, ':');
    const bool v2 = id == "0" && controllers.empty();
    if (v2 || has_word(controllers, controller)) groups.push_back({v2, std::string(line), "", ""});
    return true;
  });
  return groups;
}

// /proc/self/mountinfo: "ID PARENT MAJOR:MINOR ROOT POINT OPTIONS [TAGS] - TYPE SOURCE
// SUPEROPTIONS"
void find_mounts(std::string_view text, std::string_view controller, std::vector<Group>& groups) {
  for_each_line(text, [&](std::string_view line) {
    const auto dash = line.find(" - cgroup");
    if (dash == std::string_view::npos) return true;
    std::string_view tail = line.substr(dash + 3);
    const bool v2 = take_until(tail, ' ') == "cgroup2";
    take_until(tail, ' ');
    for (int skipped = 0; skipped < 3; ++skipped) take_until(line, ' ');
    const std::string_view root = take_until(line, ' ');
    const std::string_view point = take_until(line, ' ');
    for (Group& group : groups) {
      if (group.v2 != v2 || !group.mount_point.empty()) continue;
      if (!v2 && !has_word(tail, controller)) continue;
      group.mount_point = point;
      group.mount_root = root;
    }
    return true;
  });
}

// The group's folder relative to the mount point. In a container without a cgroup namespace the
// path is the host's, and the mount shows only the part below mount_root.
std::string relative_folder(const Group& group) {
  std::string_view path = group.path;
  const std::string_view root = group.mount_root == "/" ? "" : std::string_view(group.mount_root);
  if (!path.starts_with(root)) return "";
  path.remove_prefix(root.size());
  if (path.find("/..") != std::string_view::npos) return "";
  if (!path.empty() && path.front() != '/') return "";
  return path == "/" ? "" : std::string(path);
}

}  // namespace

std::vector<CgroupFolder> cgroup_folders(std::string_view controller, const std::string& process,
                                         const std::string& root) {
  std::vector<CgroupFolder> folders;
  const auto membership = read_small_file(root + "/proc/" + process + "/cgroup");
  const auto mounts = read_small_file(root + "/proc/self/mountinfo");
  if (!membership || !mounts) return folders;
  std::vector<Group> groups = groups_of_process(*membership, controller);
  find_mounts(*mounts, controller, groups);
  for (const Group& group : groups) {
    if (group.mount_point.empty()) continue;
    for (std::string folder = relative_folder(group);;) {
      folders.push_back({root + group.mount_point + folder, group.v2});
      if (folder.empty()) break;
      folder.resize(folder.rfind('/'));
    }
  }
  return folders;
}

}  // namespace rondo::topology
