// SPDX-License-Identifier: Apache-2.0
// What a system's headers and libstdc++ use that glibc 2.28 does not have. .ci/old_glibc.sh links
// it into each program and library, hidden.
//
// pthread_cond_clockwait, pthread_mutex_clocklock (glibc 2.30): by the functions for the real-time
// clock, at most a second at a time, because that clock may be set while they wait. A wait for a
// condition may end early, as POSIX permits.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define HIDDEN __attribute__((visibility("hidden")))
#define NANOSECONDS 1000000000L

// libstdc++ reads it (glibc 2.32) to leave out atomic operations: never does.
HIDDEN char __libc_single_threaded;

// glibc 2.29
HIDDEN int getcpu(unsigned* cpu, unsigned* node) {
  return (int)syscall(SYS_getcpu, cpu, node, (void*)0);
}

static long until(clockid_t clock, const struct timespec* end) {
  struct timespec now;
  clock_gettime(clock, &now);
  const long seconds = end->tv_sec - now.tv_sec;
  if (seconds > 1) return NANOSECONDS;
  const long all = seconds * NANOSECONDS + end->tv_nsec - now.tv_nsec;
  return all < NANOSECONDS ? all : NANOSECONDS;
}

static struct timespec real_time_in(long nanoseconds) {
  struct timespec at;
  clock_gettime(CLOCK_REALTIME, &at);
  at.tv_nsec += nanoseconds;
  at.tv_sec += at.tv_nsec / NANOSECONDS;
  at.tv_nsec %= NANOSECONDS;
  return at;
}

HIDDEN int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex,
                                  clockid_t clock, const struct timespec* end) {
  const long left = until(clock, end);
  if (left <= 0) return ETIMEDOUT;
  const struct timespec at = real_time_in(left);
  const int result = pthread_cond_timedwait(condition, mutex, &at);
  return result == ETIMEDOUT && until(clock, end) > 0 ? 0 : result;
}

HIDDEN int pthread_mutex_clocklock(pthread_mutex_t* mutex, clockid_t clock,
                                   const struct timespec* end) {
  for (;;) {
    const long left = until(clock, end);
    const struct timespec at = real_time_in(left > 0 ? left : 0);
    const int result = pthread_mutex_timedlock(mutex, &at);
    if (result != ETIMEDOUT || left <= 0) return result;
  }
}
