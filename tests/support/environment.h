// Environment variables for tests.
#pragma once

#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

namespace rondo::test {

using Environment = std::vector<std::pair<std::string, std::string>>;

// Sets a variable of this process for the lifetime of the object.
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
