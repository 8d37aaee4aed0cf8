// SPDX-License-Identifier: Apache-2.0
// A library for LD_PRELOAD: to the program, pages of the system have 64 KiB, as on some ARM
// kernels. Calls that such a kernel refuses are refused, and new mappings begin on such a page.
// (Protection and copies still have pages of 4 KiB.)
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

enum { kPage = 64 << 10 };

static int is_aligned(uintptr_t value) { return value % kPage == 0; }
static int refuse(void) {
  errno = EINVAL;
  return -1;
}

long sysconf(int name) {
  long (*const real)(int) = (long (*)(int))dlsym(RTLD_NEXT, "sysconf");
  const long value = real(name);
  if (name == _SC_PAGESIZE) return kPage;
  return name == _SC_PHYS_PAGES ? value * 4096 / kPage : value;
}
int getpagesize(void) { return kPage; }

void* mmap(void* at, size_t bytes, int protection, int flags, int fd, off_t offset) {
  void* (*const real)(void*, size_t, int, int, int, off_t) =
      (void* (*)(void*, size_t, int, int, int, off_t))dlsym(RTLD_NEXT, "mmap");
  if (!is_aligned((uintptr_t)offset) || ((flags & MAP_FIXED) && !is_aligned((uintptr_t)at))) {
    refuse();
    return MAP_FAILED;
  }
  if (flags & MAP_FIXED) return real(at, bytes, protection, flags, fd, offset);
  char* const room =
      real(NULL, bytes + kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (room == MAP_FAILED) return MAP_FAILED;
  char* const begin = room + (kPage - (uintptr_t)room % kPage) % kPage;
  void* const mapped = real(begin, bytes, protection, flags | MAP_FIXED, fd, offset);
  if (mapped == MAP_FAILED) return MAP_FAILED;
  int (*const unmap)(void*, size_t) = (int (*)(void*, size_t))dlsym(RTLD_NEXT, "munmap");
  if (begin > room) unmap(room, (size_t)(begin - room));
  char* const end = begin + (bytes + 4095) / 4096 * 4096;
  if (room + bytes + kPage > end) unmap(end, (size_t)(room + bytes + kPage - end));
  return mapped;
}

int munmap(void* at, size_t bytes) {
  int (*const real)(void*, size_t) = (int (*)(void*, size_t))dlsym(RTLD_NEXT, "munmap");
  return is_aligned((uintptr_t)at) ? real(at, bytes) : refuse();
}

int madvise(void* at, size_t bytes, int advice) {
  int (*const real)(void*, size_t, int) = (int (*)(void*, size_t, int))dlsym(RTLD_NEXT, "madvise");
  return is_aligned((uintptr_t)at) ? real(at, bytes, advice) : refuse();
}

int mprotect(void* at, size_t bytes, int protection) {
  int (*const real)(void*, size_t, int) = (int (*)(void*, size_t, int))dlsym(RTLD_NEXT, "mprotect");
  return is_aligned((uintptr_t)at) ? real(at, bytes, protection) : refuse();
}
