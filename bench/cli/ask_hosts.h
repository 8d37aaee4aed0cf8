// SPDX-License-Identifier: Apache-2.0
// Asks hosts that the user names for the jobs of this user there, by ssh, for `rondo ps --hosts
// A,B`: where processes of several hosts do not know each other, or cannot connect.
//
// ssh authenticates the user and brings the answer, so no port is opened. Guarantees: all hosts are
// asked at a time; each has kSeconds. Cost: a process for each host, here and there.
//
//   add_hosts({.hosts = {"node2"}}, &view);   // what node2 knows of the same communicators
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "collectives/status/job_view.h"

namespace rondo::cli {

struct NamedHosts {
  static constexpr double kSeconds = 15;
  std::vector<std::string> hosts{};
  std::string agent = "ssh -o BatchMode=yes -o ConnectTimeout=5";  // AGENT HOST COMMAND
};

// Adds the ranks of the view's communicators that the hosts know. Hosts without an answer are
// silent in the view, with the reason. kInvalidArgument: a name that is none.
Status add_hosts(const NamedHosts& named, JobView* view);

// What a host that is asked prints: its jobs.
Result<std::string> jobs_text();

}  // namespace rondo::cli
