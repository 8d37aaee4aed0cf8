#include "kernels/sim/task_stacks.h"

#include <sys/mman.h>

namespace rondo::sim {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr std::size_t kStackBytes = 256 << 10;
#else
constexpr std::size_t kStackBytes = 16 << 10;
#endif

}  // namespace

TaskStacks::TaskStacks(std::size_t most) : max_(most) {
  void* const base = mmap(nullptr, most * kStackBytes, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) {
    max_ = 0;
    return;
  }
  // Huge pages would allocate 2 MiB for the first bytes of a stack.
  madvise(base, most * kStackBytes, MADV_NOHUGEPAGE);
  base_ = static_cast<std::byte*>(base);
}

TaskStacks::~TaskStacks() {
  if (base_ != nullptr) munmap(base_, max_ * kStackBytes);
}

boost::context::stack_context TaskStacks::take() {
  boost::context::stack_context stack;
  if (!free_.empty()) {
    stack = free_.back();
    free_.pop_back();
    return stack;
  }
  ++used_;
  stack.size = kStackBytes;
  stack.sp = base_ + used_ * kStackBytes;
  return stack;
}

}  // namespace rondo::sim
