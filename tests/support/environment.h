// Environment variables of tests.
#pragma once

#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

namespace rondo::test {

using Environment = std::vector<std::pair<std::string, std::string>>;

// A variable of this process, for a while.
class WithEnvironment {
 public:
  WithEnvironment(const char* name, const std::string& value) : name_(name) {
    setenv(name, value.c_str(), 1);
  }
  ~WithEnvironment() { unsetenv(name_); }
  WithEnvironment(const WithEnvironment&) = delete;
  WithEnvironment& operator=(const WithEnvironment&) = delete;

 private:
  const char* name_;
};

}  // namespace rondo::test
