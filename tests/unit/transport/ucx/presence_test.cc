// SPDX-License-Identifier: Apache-2.0
// UCX is found when it is requested, an error text reports its absence, and it leaves signals
// alone.
#include "transport/ucx/presence.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef RONDO_UCX
#include "transport/ucx/ucp/ucp_library.h"
#endif

namespace rondo::ucx {
namespace {

using testing::HasSubstr;

#ifdef RONDO_UCX
TEST(Ucx, WhereItIsNotInstalledNamesWhatToInstall) {
  const auto loaded = UcpLibrary::load_from("libucp-that-is-not-there.so.0");
  ASSERT_FALSE(loaded.ok());
  EXPECT_THAT(loaded.error().text, HasSubstr("libucp-that-is-not-there.so.0"));
  EXPECT_THAT(loaded.error().text, HasSubstr("install libucx0"));
}

TEST(Ucx, OfALibraryThatIsAnotherNamesTheFirstFunctionThatIsMissing) {
  const auto loaded = UcpLibrary::load_from("libc.so.6");
  ASSERT_FALSE(loaded.ok());
  EXPECT_THAT(loaded.error().text, HasSubstr("libc.so.6 has no function ucp_init_version"));
}

TEST(Ucx, IsLoadedOnceAndReportsItsVersion) {
  const auto first = UcpLibrary::load();
  ASSERT_TRUE(first.ok()) << first.error().text;
  EXPECT_EQ(UcpLibrary::load().value(), *first);
  EXPECT_THAT(library_version().value(), testing::StartsWith("1."));
}

void on_signal(int) {}

// Runs in a process that has not loaded UCX yet. The library would install handlers for SIGHUP and
// for error signals.
TEST(Ucx, LeavesTheProgramsSignalHandlersAlone) {
  const pid_t child = ::fork();
  if (child == 0) {
    struct sigaction own {};
    own.sa_handler = on_signal;
    ::sigaction(SIGSEGV, &own, nullptr);
    ::signal(SIGHUP, SIG_DFL);  // nohup ignores it
    if (!UcpLibrary::load_from("libucp.so.0").ok()) ::_exit(1);
    struct sigaction now {
    }, hup{};
    ::sigaction(SIGSEGV, nullptr, &now);
    ::sigaction(SIGHUP, nullptr, &hup);
    ::_exit(now.sa_handler == on_signal && hup.sa_handler == SIG_DFL ? 0 : 2);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}
#else
TEST(Ucx, OfABuildWithoutItsHeadersIsReported) {
  const auto version = library_version();
  ASSERT_FALSE(version.ok());
  EXPECT_THAT(version.error().text, HasSubstr("built without UCX"));
}
#endif

}  // namespace
}  // namespace rondo::ucx
