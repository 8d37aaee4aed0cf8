// SPDX-License-Identifier: Apache-2.0
// Files that the library writes for the user: it follows no link and truncates no file that has a
// second name or another owner.
#include "base/text_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/log.h"
#include "tests/support/temporary_folder.h"

namespace rondo {
namespace {

namespace fs = std::filesystem;

std::string text_of(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

class OutputFile : public testing::Test {
 protected:
  const test::TemporaryFolder temporary_;
  const fs::path folder_ = temporary_.path();
  const fs::path victim_ = temporary_.file("victim", "precious");
};

TEST_F(OutputFile, EmptiesAFileOfOurs) {
  const auto file = open_output(victim_, OutputMode::kReplace);
  ASSERT_TRUE(file.ok()) << file.error().text;
  EXPECT_EQ(::write(file->get(), "new", 3), 3);
  EXPECT_EQ(text_of(victim_), "new");
}

TEST_F(OutputFile, FollowsNoSymbolicLink) {
  const fs::path link = folder_ / "link";
  fs::create_symlink(victim_, link);
  const auto file = open_output(link, OutputMode::kAppendLines);
  ASSERT_FALSE(file.ok());
  EXPECT_NE(file.error().text.find("is a symbolic link"), std::string::npos);
  EXPECT_EQ(text_of(victim_), "precious");
}

TEST_F(OutputFile, EmptiesNoFileWithASecondName) {
  const fs::path link = folder_ / "link";
  fs::create_hard_link(victim_, link);
  EXPECT_FALSE(open_output(link, OutputMode::kReplace).ok());
  EXPECT_EQ(text_of(victim_), "precious");
}

TEST_F(OutputFile, EmptiesNoFileOfAnotherUser) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root to make one";
  ASSERT_EQ(::chown(victim_.c_str(), 65534, 65534), 0);
  EXPECT_FALSE(open_output(victim_, OutputMode::kReplace).ok());
  EXPECT_EQ(text_of(victim_), "precious");
}

TEST_F(OutputFile, DevStdoutIsTheDescriptorThatThereIs) {
  const fs::path path = folder_ / "stdout";
  fflush(stdout);
  const int before = ::dup(1);
  const int to = ::open(path.c_str(), O_WRONLY | O_CREAT, 0600);
  ::dup2(to, 1);
  EXPECT_EQ(::write(1, "one ", 4), 4);
  const Status written = write_output("/dev/stdout", "two ");
  EXPECT_EQ(::write(1, "three", 5), 5);
  ::dup2(before, 1);
  ::close(before), ::close(to);
  EXPECT_TRUE(written.ok());
  EXPECT_EQ(text_of(path), "one two three");
  EXPECT_TRUE(open_output("/dev/null", OutputMode::kReplace).ok());
}

TEST_F(OutputFile, AWholeFileReplacesALinkAndLeavesItsTarget) {
  const fs::path link = folder_ / "link";
  fs::create_symlink(victim_, link);
  ASSERT_TRUE(write_output(link, "results").ok());
  EXPECT_EQ(text_of(victim_), "precious");
  EXPECT_EQ(text_of(link), "results");
  EXPECT_FALSE(fs::is_symlink(link));
  fs::create_symlink(victim_, fmt::format("{}.{}.part", (folder_ / "aimed").string(), getpid()));
  EXPECT_FALSE(write_output(folder_ / "aimed", "results").ok());
  EXPECT_EQ(text_of(victim_), "precious");
}

TEST_F(OutputFile, TheLogGoesElsewhereInsteadOfThroughALink) {
  const fs::path link = folder_ / "log";
  fs::create_symlink(victim_, link);
  ::setenv("NCCL_DEBUG", "WARN", 1);
  ::setenv("NCCL_DEBUG_FILE", link.c_str(), 1);
  testing::internal::CaptureStderr();
  log::reset();
  (void)log::wanted(log::Level::kWarn);
  const std::string complaint = testing::internal::GetCapturedStderr();
  ::unsetenv("NCCL_DEBUG");
  ::unsetenv("NCCL_DEBUG_FILE");
  log::reset();
  EXPECT_NE(complaint.find("is a symbolic link"), std::string::npos) << complaint;
  EXPECT_EQ(text_of(victim_), "precious");
}

}  // namespace
}  // namespace rondo
