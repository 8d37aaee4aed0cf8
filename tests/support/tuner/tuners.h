// SPDX-License-Identifier: Apache-2.0
// The test tuner plugin (test_tuner.h): paths of its libraries, and its counters.
#pragma once

#include <dlfcn.h>

#include <string>

#include "tests/support/tuner/test_tuner.h"

namespace rondo::test {

// "": the library with all versions of the interface. "2" to "6": with that version alone. "7":
// with none.
inline std::string tuner_file(const std::string& version = "") {
  std::string file = RONDO_TEST_TUNER_FILE;
  return file.replace(file.find('%'), 1, version);
}

class TunerCounts {
 public:
  explicit TunerCounts(const std::string& version = "")
      : count_(reinterpret_cast<rondo_test_tuner_count_t>(
            dlsym(dlopen(tuner_file(version).c_str(), RTLD_NOW), "rondo_test_tuner_count"))) {}
  long of(const char* what) const { return count_(what); }

 private:
  const rondo_test_tuner_count_t count_;
};

}  // namespace rondo::test
