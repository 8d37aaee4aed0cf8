// SPDX-License-Identifier: Apache-2.0
#include "tests/support/plugin/plugins.h"

namespace rondo::test {

std::string plugin_file(const std::string& version) {
  std::string file = RONDO_TEST_PLUGIN_FILE;
  return file.replace(file.find('%'), 1, version);
}

}  // namespace rondo::test
