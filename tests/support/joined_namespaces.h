// SPDX-License-Identifier: Apache-2.0
// Two network namespaces joined by a veth pair: near, 10.7.0.1, for this process; far, 10.7.0.2,
// for ranks. They have no other route, unless `prepare` adds one.
//
//   const JoinedNamespaces hosts;
//   if (!hosts) GTEST_SKIP() << "no network namespaces here";
//   ...in a rank's process: hosts.go_there();
// Guarantees: packets pass when the constructor returns; the destructor returns the process to its
// first namespace.
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
  // prepare: a shell command, run on each side before its end of the wire, $wire, is up.
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
            run("for try in $(seq 4000); do ip link show near | grep -q LOWER_UP && exit; "
                "sleep 0.05; done; false");  // the kernel reports the state with a delay
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
