// SPDX-License-Identifier: Apache-2.0
// Each test run on the emulated GPU has its own emulated machine, which its ranks share by
// inheriting the variable. Otherwise kernels of one test that wait for each other would be reported
// for blocking another test that runs at the same time.
#include <fmt/core.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

namespace {

class OwnMachine {
 public:
  OwnMachine() : owner_(getpid()), name_(fmt::format("test-{}", owner_)) {
    if (setenv("RONDO_SIMT_MACHINE", name_.c_str(), 0) != 0) std::abort();
  }
  ~OwnMachine() {
    if (getpid() == owner_) unlink(fmt::format("/tmp/rondo-simt-{}-{}", getuid(), name_).c_str());
  }
  OwnMachine(const OwnMachine&) = delete;
  OwnMachine& operator=(const OwnMachine&) = delete;

 private:
  const int owner_;
  const std::string name_;
};

const OwnMachine own_machine;

}  // namespace
