// SPDX-License-Identifier: Apache-2.0
#include "tests/faults/injector.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdlib>
#include <new>

#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

namespace rondo::test {
namespace {

constexpr std::string_view kNames[] = {"none",   "socket",   "accept",  "memfd",     "mmap",
                                       "pidfd",  "thread",   "eventfd", "epoll",     "dup",
                                       "resize", "populate", "sendmsg", "allocation"};
static_assert(std::size(kNames) == static_cast<std::size_t>(Kind::kCount));

std::atomic<Kind> armed{Kind::kNone};
std::atomic<std::uint64_t> wanted{0}, calls{0};
std::atomic<std::int64_t> mappings{0};
// Prints the caller's address, for addr2line -e fault_sweep.
const bool traced = std::getenv("RONDO_FAULTS_TRACE") != nullptr;

// True for the call that must fail.
bool hit(Kind kind) {
  if (armed.load(std::memory_order_relaxed) != kind) return false;
  if (calls.fetch_add(1) + 1 != wanted.load(std::memory_order_relaxed)) return false;
  if (traced) {
    void* frames[40];
    backtrace_symbols_fd(frames, backtrace(frames, 40), STDERR_FILENO);
  }
  return true;
}

int refuse(int error) {
  errno = error;
  return -1;
}

template <class Function>
Function real(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

}  // namespace

std::string_view name_of(Kind kind) { return kNames[static_cast<std::size_t>(kind)]; }

Kind kind_of(std::string_view name) {
  for (std::size_t i = 0; i < std::size(kNames); ++i)
    if (kNames[i] == name) return static_cast<Kind>(i);
  return Kind::kNone;
}

void arm(Kind kind, std::uint64_t nth) {
  calls.store(0);
  wanted.store(nth);
  armed.store(kind);
}

Outcome disarm() {
  armed.store(Kind::kNone);
  return {wanted.load() != 0 && calls.load() >= wanted.load(), calls.load()};
}

std::int64_t live_mappings() { return mappings.load(); }

}  // namespace rondo::test

using rondo::test::Kind;

// Definitions in the program override those of the C library, for libraries too.
#pragma GCC visibility push(default)
extern "C" {

int socket(int domain, int type, int protocol) {
  if (rondo::test::hit(Kind::kSocket)) return rondo::test::refuse(EMFILE);
  return static_cast<int>(syscall(SYS_socket, domain, type, protocol));
}
int accept4(int fd, sockaddr* address, socklen_t* length, int flags) {
  if (rondo::test::hit(Kind::kAccept)) return rondo::test::refuse(EMFILE);
  return static_cast<int>(syscall(SYS_accept4, fd, address, length, flags));
}
int memfd_create(const char* name, unsigned flags) noexcept {
  if (rondo::test::hit(Kind::kMemfd)) return rondo::test::refuse(EMFILE);
  return static_cast<int>(syscall(SYS_memfd_create, name, flags));
}
int eventfd(unsigned value, int flags) noexcept {
  if (rondo::test::hit(Kind::kEventfd)) return rondo::test::refuse(EMFILE);
  return static_cast<int>(syscall(SYS_eventfd2, value, flags));
}
int epoll_create1(int flags) noexcept {
  if (rondo::test::hit(Kind::kEpoll)) return rondo::test::refuse(EMFILE);
  return static_cast<int>(syscall(SYS_epoll_create1, flags));
}
int fcntl(int fd, int command, ...) {
  if (command == F_DUPFD_CLOEXEC && rondo::test::hit(Kind::kDup))
    return rondo::test::refuse(EMFILE);
  va_list list;
  va_start(list, command);
  const long argument = va_arg(list, long);
  va_end(list);
  return static_cast<int>(syscall(SYS_fcntl, fd, command, argument));
}
int ftruncate(int fd, off_t length) noexcept {
  if (rondo::test::hit(Kind::kResize)) return rondo::test::refuse(ENOSPC);
  return static_cast<int>(syscall(SYS_ftruncate, fd, length));
}
int madvise(void* at, std::size_t bytes, int advice) noexcept {
  if (advice == MADV_POPULATE_WRITE && rondo::test::hit(Kind::kPopulate))
    return rondo::test::refuse(ENOMEM);
  return static_cast<int>(syscall(SYS_madvise, at, bytes, advice));
}
ssize_t sendmsg(int fd, const msghdr* message, int flags) {
  if (rondo::test::hit(Kind::kSendmsg)) return rondo::test::refuse(ENOBUFS);
  return syscall(SYS_sendmsg, fd, message, flags);
}
void* mmap(void* at, std::size_t bytes, int protection, int flags, int fd, off_t offset) noexcept {
  if (rondo::test::hit(Kind::kMmap)) {
    errno = ENOMEM;
    return MAP_FAILED;
  }
  auto* made = reinterpret_cast<void*>(syscall(SYS_mmap, at, bytes, protection, flags, fd, offset));
  if (made != MAP_FAILED && (flags & MAP_FIXED) == 0) ++rondo::test::mappings;
  return made;
}
int munmap(void* at, std::size_t bytes) noexcept {
  const int result = static_cast<int>(syscall(SYS_munmap, at, bytes));
  if (result == 0) --rondo::test::mappings;
  return result;
}
long syscall(long number, ...) noexcept {
  static const auto real = rondo::test::real<long (*)(long, ...)>("syscall");
  va_list list;
  va_start(list, number);
  long a[6];
  for (long& each : a) each = va_arg(list, long);
  va_end(list);
  if (number == SYS_pidfd_open && rondo::test::hit(Kind::kPidfd))
    return rondo::test::refuse(EMFILE);
  return real(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*body)(void*),
                   void* argument) noexcept {
  static const auto real =
      rondo::test::real<int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*)>(
          "pthread_create");
  if (rondo::test::hit(Kind::kThread)) return EAGAIN;
  return real(thread, attributes, body, argument);
}
}
#pragma GCC visibility pop

void* operator new(std::size_t bytes) {
  if (rondo::test::hit(Kind::kAllocation)) throw std::bad_alloc();
  if (void* made = std::malloc(bytes == 0 ? 1 : bytes)) return made;
  throw std::bad_alloc();
}
void* operator new[](std::size_t bytes) { return operator new(bytes); }
void operator delete(void* at) noexcept { std::free(at); }
void operator delete(void* at, std::size_t) noexcept { std::free(at); }
void operator delete[](void* at) noexcept { std::free(at); }
void operator delete[](void* at, std::size_t) noexcept { std::free(at); }
