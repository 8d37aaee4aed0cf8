// SPDX-License-Identifier: Apache-2.0
// Environment variables for tests.
#pragma once

#include <cstdlib>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace rondo::test {

using Environment = std::vector<std::pair<std::string, std::string>>;

// Sets a variable of this process for the lifetime of the object, then restores it.
class WithEnvironment {
 public:
  WithEnvironment(const char* name, const std::string& value) : name_(name) {
    if (const char* now = std::getenv(name)) before_ = now;
    setenv(name, value.c_str(), 1);
  }
  ~WithEnvironment() { before_ ? setenv(name_, before_->c_str(), 1) : unsetenv(name_); }
  WithEnvironment(const WithEnvironment&) = delete;
  WithEnvironment& operator=(const WithEnvironment&) = delete;

 private:
  const char* name_;
  std::optional<std::string> before_;
};

}  // namespace rondo::test
