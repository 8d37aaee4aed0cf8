// SPDX-License-Identifier: Apache-2.0
#include "tests/scale/heap.h"

#include <malloc.h>

#include <atomic>
#include <cstdlib>
#include <new>

namespace {

std::atomic<std::size_t> heap_used{0}, heap_peak{0};

void* take_from_heap(std::size_t bytes) {
  void* const at = std::malloc(bytes);
  if (at == nullptr) throw std::bad_alloc();
  const std::size_t now = heap_used += malloc_usable_size(at);
  std::size_t peak = heap_peak.load();
  while (now > peak && !heap_peak.compare_exchange_weak(peak, now)) {
  }
  return at;
}

void give_to_heap(void* at) {
  if (at != nullptr) heap_used -= malloc_usable_size(at);
  std::free(at);
}

}  // namespace

void* operator new(std::size_t bytes) { return take_from_heap(bytes); }
void* operator new[](std::size_t bytes) { return take_from_heap(bytes); }
void operator delete(void* at) noexcept { give_to_heap(at); }
void operator delete[](void* at) noexcept { give_to_heap(at); }
void operator delete(void* at, std::size_t) noexcept { give_to_heap(at); }
void operator delete[](void* at, std::size_t) noexcept { give_to_heap(at); }

namespace rondo::test {

HeapPeak::HeapPeak() : before_(heap_used) { heap_peak = before_; }
std::size_t HeapPeak::bytes() const { return heap_peak - before_; }

}  // namespace rondo::test
