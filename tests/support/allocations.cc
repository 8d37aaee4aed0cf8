// SPDX-License-Identifier: Apache-2.0
#include "tests/support/allocations.h"

#include <cstdlib>

namespace {
thread_local std::size_t allocations = 0;
}  // namespace

namespace rondo::test {
std::size_t allocations_of_this_thread() { return allocations; }
}  // namespace rondo::test

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && defined(__GLIBC__)

// The program's definitions take precedence over the C library's. operator new also calls these.
extern "C" {
void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);

void* malloc(std::size_t bytes) {
  ++allocations;
  return __libc_malloc(bytes);
}
void* calloc(std::size_t count, std::size_t bytes) {
  ++allocations;
  return __libc_calloc(count, bytes);
}
void* realloc(void* old, std::size_t bytes) {
  ++allocations;
  return __libc_realloc(old, bytes);
}
void* aligned_alloc(std::size_t alignment, std::size_t bytes) {
  ++allocations;
  return __libc_memalign(alignment, bytes);
}
}

#endif
