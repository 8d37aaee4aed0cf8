// SPDX-License-Identifier: Apache-2.0
// A temporary folder for the files of a simulated machine or for a test's output.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace rondo::test {

// The destructor removes the folder and its contents.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = std::filesystem::temp_directory_path() / "rondo_test_XXXXXX";
    path_ = ::mkdtemp(name.data()) == nullptr ? "" : name;
    EXPECT_FALSE(path_.empty()) << "no temporary folder can be made";
  }
  ~TemporaryFolder() {
    if (!path_.empty()) std::filesystem::remove_all(path_);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  // Creates or replaces a file, and its parent folders. Returns its path.
  std::string file(const std::string& name, const std::string& text) const {
    const auto path = std::filesystem::path(path_) / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
    return path;
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace rondo::test
