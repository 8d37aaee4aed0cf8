// SPDX-License-Identifier: Apache-2.0
// A job whose status sockets are its own, so that tests that run at the same time do not see it.
#pragma once

#include <fmt/format.h>

#include <string>
#include <vector>

#include "tests/support/engine_rank.h"
#include "tests/support/environment.h"
#include "tests/support/ports.h"
#include "tests/support/temporary_folder.h"

namespace rondo::test {

using Hosts = std::vector<std::string>;

struct StatusJob {
  TemporaryFolder folder;
  std::string sockets = folder.path() + "/status";
  std::uint16_t port = reserved_port();
  WithEnvironment dir{"RONDO_STATUS_DIR", sockets};

  Environment environment() const {
    return {{"RONDO_STATUS_DIR", sockets}, {"NCCL_RAS_ADDR", fmt::format("127.0.0.1:{}", port)}};
  }
  Job job(const Hosts& hosts = {}) const {
    Job made(short_timeouts());
    made.hosts = hosts;
    made.environment = environment();
    return made;
  }
};

}  // namespace rondo::test
