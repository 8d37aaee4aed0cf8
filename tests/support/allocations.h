// Counts the allocations of a thread: malloc and operator new of this test program are watched.
//
//   AllocationCount count;  work();  EXPECT_EQ(count.so_far(), 0);
// Not under a sanitizer, which has an allocator of its own: kWatched is false there.
#pragma once

#include <cstddef>

namespace rondo::test {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kWatched = false;
#else
inline constexpr bool kWatched = true;
#endif

std::size_t allocations_of_this_thread();

class AllocationCount {
 public:
  AllocationCount() : before_(allocations_of_this_thread()) {}
  std::size_t so_far() const { return allocations_of_this_thread() - before_; }

 private:
  std::size_t before_;
};

}  // namespace rondo::test
