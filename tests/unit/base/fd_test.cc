// SPDX-License-Identifier: Apache-2.0
// Descriptors in a process whose standard input, output or error is closed. The library leaves 0, 1
// and 2 to the program.
#include "base/fd.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <cerrno>
#include <chrono>

#include "base/shared_library.h"
#include "tests/support/environment.h"
#include "tests/support/in_child.h"
#include "tests/support/temporary_folder.h"
#include "transport/shm/memfd.h"
#include "transport/shm/unix_socket.h"
#include "transport/socket/socket.h"

namespace rondo {
namespace {

using test::in_child;

bool is_closed(int fd) { return fcntl(fd, F_GETFD) < 0 && errno == EBADF; }

void close_standard() {
  for (int fd = 0; fd <= 2; ++fd) ::close(fd);
}

std::string standard_is_closed() {
  for (int fd = 0; fd <= 2; ++fd)
    if (!is_closed(fd)) return fmt::format("descriptor {} is in use", fd);
  return "";
}

std::string is_above(int fd) {
  if (fd < 3) return fmt::format("descriptor {}", fd);
  if ((fcntl(fd, F_GETFD) & FD_CLOEXEC) == 0) return "it stays open on exec";
  return standard_is_closed();
}

TEST(Fd, LeavesTheStandardDescriptorsToTheProgram) {
  EXPECT_EQ(in_child([] {
              close_standard();
              const Fd file(::open("/dev/null", O_RDONLY | O_CLOEXEC));
              return is_above(file.get());
            }),
            "");
  EXPECT_EQ(in_child([] {
              close_standard();
              Fd bell;
              bell.reset(::eventfd(0, EFD_CLOEXEC));
              return is_above(bell.get());
            }),
            "");
  EXPECT_EQ(in_child([] {
              close_standard();
              const net::Socket socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
              return is_above(socket.get());
            }),
            "");
  EXPECT_EQ(in_child([] {
              close_standard();
              const auto memory = shm::create_memfd("test", 4096);
              return memory.ok() ? is_above(memory->get()) : memory.error().text;
            }),
            "");
}

TEST(Fd, ReceivedDescriptorsAreAboveTheStandardOnes) {
  EXPECT_EQ(in_child([]() -> std::string {
              int ends[2];
              if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return "no pair";
              const Fd from(ends[0]), to(ends[1]);
              const Fd given(::open("/dev/null", O_RDONLY | O_CLOEXEC));
              close_standard();
              const int three[] = {given.get(), given.get(), given.get()};
              const auto deadline = net::Deadline::of(std::chrono::minutes(5));
              if (!shm::send_fds(from.get(), 7, three, deadline).ok()) return "nothing sent";
              const auto message = shm::receive_fds(to.get(), deadline);
              if (!message.ok()) return message.error().text;
              if (message->fds.size() != 3) return "other descriptors";
              for (const Fd& fd : message->fds)
                if (const std::string wrong = is_above(fd.get()); !wrong.empty()) return wrong;
              return "";
            }),
            "");
}

TEST(Fd, IsEmptyWhereNoOtherNumberIsFree) {
  EXPECT_EQ(in_child([]() -> std::string {
              ::close(0);
              const rlimit tight{static_cast<rlim_t>(3), static_cast<rlim_t>(3)};
              setrlimit(RLIMIT_NOFILE, &tight);
              const Fd file(::open("/dev/null", O_RDONLY | O_CLOEXEC));
              const int error = errno;
              if (file) return "a descriptor";
              if (error != EMFILE) return fmt::format("errno {}", error);
              return is_closed(0) ? "" : "descriptor 0 is in use";
            }),
            "");
}

TEST(SharedLibrary, GetsNoStandardDescriptorEither) {
  EXPECT_EQ(
      in_child([]() -> std::string {
        ::close(1);
        if (load_library("/nowhere/libnone.so").ok()) return "a library that is not there";
        if (!is_closed(1)) return "descriptor 1 is in use though nothing was loaded";
        const auto library = load_library("libm.so.6");
        if (!library.ok()) return library.error().text;
        const Fd later(::open("/dev/null", O_WRONLY | O_CLOEXEC));  // as the library may open one
        if (later.get() < 3) return "a descriptor of 1";
        if (::write(1, "x", 1) != -1 || errno != EBADF) return "descriptor 1 takes bytes";
        if ((fcntl(1, F_GETFD) & FD_CLOEXEC) == 0) return "it stays open on exec";
        return "";
      }),
      "");
}

TEST(SharedLibrary, IsLookedAtBeforeItIsOpened) {
  const test::TemporaryFolder folder;
  const std::string fifo = folder.path() + "/libfifo.so";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  const auto refusal = [](const std::string& file) {
    return in_child([&]() -> std::string {
      const auto library = load_library(file);
      return library.ok() ? "loaded" : library.error().text;
    });
  };
  EXPECT_EQ(refusal(fifo), "it is a FIFO, not a regular file");
  EXPECT_EQ(refusal("/dev/zero"), "it is a device, not a regular file");
  EXPECT_EQ(refusal(folder.path()), "it is a folder, not a regular file");
  const test::WithEnvironment variable("LD_LIBRARY_PATH", "/nowhere:" + folder.path());
  EXPECT_EQ(refusal("libfifo.so"), "it is a FIFO, not a regular file");
}

}  // namespace
}  // namespace rondo
