// Two network namespaces of a test's own, joined by a wire: near, 10.7.0.1, is this process's; far,
// 10.7.0.2, is where ranks go. Neither has another way to anywhere, unless `prepare` makes one.
//
//   const JoinedNamespaces hosts;
//   if (!hosts) GTEST_SKIP() << "no network namespaces here";
//   ...in a rank's process: hosts.go_there();
// Guarantees: the wire carries packets; the process is back where it was at the end.
#pragma once

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "base/fd.h"

namespace rondo::test {

class JoinedNamespaces {
 public:
  // prepare: a command of the shell, run on either side before its end of the wire, $wire, is up.
  explicit JoinedNamespaces(const std::string& prepare = ":")
      : before_(open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC)) {
    made_ = unshare(CLONE_NEWNET) == 0 && run("ip link set lo up") &&
            run("ip link add near type veth peer name far");
    const Fd here(open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC));
    made_ = made_ && unshare(CLONE_NEWNET) == 0 && run("ip link set lo up");
    there_ = Fd(open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC));
    const std::string far = fmt::format("/proc/{}/fd/{}", getpid(), there_.get());
    made_ = made_ && setns(here.get(), CLONE_NEWNET) == 0 &&
            run("ip link set far netns " + far + " && " + raise("near", 1, prepare) +
                " && nsenter --net=" + far + " sh -c '" + raise("far", 2, prepare) + "'") &&
            run("for try in $(seq 200); do ip link show near | grep -q LOWER_UP && exit; "
                "sleep 0.05; done; false");  // the kernel tells a while later
  }
  ~JoinedNamespaces() { setns(before_.get(), CLONE_NEWNET); }
  JoinedNamespaces(const JoinedNamespaces&) = delete;
  JoinedNamespaces& operator=(const JoinedNamespaces&) = delete;

  explicit operator bool() const { return made_; }
  bool go_there() const { return setns(there_.get(), CLONE_NEWNET) == 0; }

 private:
  static std::string raise(const char* wire, int number, const std::string& prepare) {
    return fmt::format(
        "wire={0} && {{ {2}; }} && ip addr add 10.7.0.{1}/24 dev {0} && "
        "ip link set {0} up",
        wire, number, prepare);
  }
  static bool run(const std::string& command) {
    return std::system((command + " >/dev/null 2>&1").c_str()) == 0;
  }

  const Fd before_;
  Fd there_;
  bool made_ = false;
};

}  // namespace rondo::test
