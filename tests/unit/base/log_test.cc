// SPDX-License-Identifier: Apache-2.0
// Log lines, as NCCL's variables select and format them.
#include "base/log.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <regex>
#include <string>
#include <vector>

namespace rondo::log {
namespace {

using Variables = std::vector<std::pair<const char*, const char*>>;

// The lines that one warning and one information message write to a file.
std::vector<std::string> lines_with(Variables variables) {
  std::string path = std::filesystem::temp_directory_path() / "rondo_log_XXXXXX";
  const int fd = ::mkstemp(path.data());
  EXPECT_GE(fd, 0);
  ::close(fd);
  variables.insert(variables.end(), {{"NCCL_DEBUG", "INFO"}, {"NCCL_DEBUG_FILE", path.c_str()}});
  for (const auto& [name, value] : variables) ::setenv(name, value, 1);
  reset();
  RONDO_WARN("a warning of {}", 7);
  RONDO_INFO(kInit, "an information");
  for (const auto& [name, value] : variables) ::unsetenv(name);
  reset();
  std::vector<std::string> lines;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  std::filesystem::remove(path);
  return lines;
}

void expect_line(const std::string& line, const std::string& pattern) {
  EXPECT_TRUE(std::regex_match(line, std::regex(pattern))) << line;
}

// Once: as a line of the log, or on standard error where the log is silent.
TEST(Log, NoticesAreSeenWithAndWithoutALog) {
  reset();
  testing::internal::CaptureStderr();
  notice("RONDO_METRICS=1: no");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "rondo: RONDO_METRICS=1: no\n");
  ::setenv("NCCL_DEBUG", "WARN", 1);
  reset();
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  notice("RONDO_METRICS=1: no");
  ::unsetenv("NCCL_DEBUG");
  reset();
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  expect_line(testing::internal::GetCapturedStdout(), R"([^\n]*NCCL WARN RONDO_METRICS=1: no\n)");
}

TEST(Log, BeginsWarningsWithTheTime) {
  const auto lines = lines_with({});
  ASSERT_EQ(lines.size(), 2u);
  expect_line(lines[0], R"(\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\] \S+ .*NCCL WARN a warning of 7)");
  expect_line(lines[1], R"([^\[]\S* \[-1\] NCCL INFO an information)");
}

TEST(Log, TakesTheFormatOfTheTimeAndItsLevels) {
  const auto lines = lines_with({{"NCCL_DEBUG_TIMESTAMP_FORMAT", "<%H.%M %3f %% %Y> "},
                                 {"NCCL_DEBUG_TIMESTAMP_LEVELS", "^WARN"}});
  ASSERT_EQ(lines.size(), 2u);
  expect_line(lines[0], R"([^<].*NCCL WARN a warning of 7)");
  expect_line(lines[1], R"(<\d\d\.\d\d \d{3} % \d{4}> \S+ \[-1\] NCCL INFO an information)");
}

// The text on standard error when the log reads its variables again.
std::string complaint_with(const Variables& variables) {
  for (const auto& [name, value] : variables) ::setenv(name, value, 1);
  testing::internal::CaptureStderr();
  reset();
  (void)wanted(Level::kWarn);
  const std::string text = testing::internal::GetCapturedStderr();
  for (const auto& [name, value] : variables) ::unsetenv(name);
  reset();
  return text;
}

TEST(Log, ReportsWhatIsWrongWithItsOwnVariables) {
  EXPECT_NE(complaint_with({{"NCCL_DEBUG", "INOF"}}).find("NCCL_DEBUG='INOF' is not VERSION, WARN"),
            std::string::npos);
  EXPECT_NE(complaint_with({{"NCCL_DEBUG", "WARN"}, {"NCCL_DEBUG_FILE", "/no/such/folder/log"}})
                .find("NCCL_DEBUG_FILE='/no/such/folder/log': No such file or directory"),
            std::string::npos);
  for (const char* fine : {"", "none", "Warn", "TRACE", "version"})
    EXPECT_EQ(complaint_with({{"NCCL_DEBUG", fine}}), "");
}

}  // namespace
}  // namespace rondo::log
