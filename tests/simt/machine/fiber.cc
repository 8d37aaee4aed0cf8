// SPDX-License-Identifier: Apache-2.0
#include "tests/simt/machine/fiber.h"

#include <sys/mman.h>

#include <atomic>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <vector>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

namespace rondo::simt {

using boost::context::detail::jump_fcontext;
using boost::context::detail::make_fcontext;

namespace {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr std::size_t kStackBytes = 256 << 10;
#else
constexpr std::size_t kStackBytes = 64 << 10;
#endif
constexpr std::size_t kGuardBytes = 4096;
// Each guard splits one mapping in two, and a process may have 65,530 mappings. Stacks beyond this
// number have no guard, and their mappings merge.
constexpr int kMaxGuards = 20'000;
std::atomic<int> guards{0};
}  // namespace

class FiberStack {
 public:
  FiberStack() {
    void* const memory = mmap(nullptr, kStackBytes + kGuardBytes, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    if (memory == MAP_FAILED) {
      std::perror("emulated GPU: mmap of a thread's stack");
      std::abort();
    }
    if (guards.fetch_add(1, std::memory_order_relaxed) < kMaxGuards)
      mprotect(memory, kGuardBytes, PROT_NONE);
    base_ = static_cast<std::byte*>(memory);
    identity_ = FiberIdentity::of_stack(base_ + kGuardBytes, kStackBytes);
  }
  ~FiberStack() {
    identity_.destroy();
    guards.fetch_sub(1, std::memory_order_relaxed);
    munmap(base_, kStackBytes + kGuardBytes);
  }
  FiberStack(const FiberStack&) = delete;
  FiberStack& operator=(const FiberStack&) = delete;

  std::byte* top() const { return base_ + kGuardBytes + kStackBytes; }
  std::size_t size() const { return kStackBytes; }
  const FiberIdentity& identity() const { return identity_; }
  void forget() {  // what an abandoned body left on the stack
#if defined(__SANITIZE_ADDRESS__)
    __asan_unpoison_memory_region(base_ + kGuardBytes, kStackBytes);
#endif
  }

 private:
  std::byte* base_;
  FiberIdentity identity_;
};

namespace {

// Unused stacks of this thread.
std::vector<std::unique_ptr<FiberStack>>& spare_stacks() {
  thread_local std::vector<std::unique_ptr<FiberStack>> stacks;
  return stacks;
}

}  // namespace

Fiber::Fiber(Body body, void* argument) : body_(body), argument_(argument) {}

Fiber::~Fiber() {
  if (stack_ == nullptr) return;
  stack_->forget();
  spare_stacks().push_back(std::move(stack_));
}

void Fiber::resume() {
  if (stack_ == nullptr) {
    auto& spare = spare_stacks();
    if (spare.empty()) {
      stack_ = std::make_unique<FiberStack>();
    } else {
      stack_ = std::move(spare.back());
      spare.pop_back();
    }
    inside_ = make_fcontext(stack_->top(), stack_->size(), &Fiber::enter);
  }
  resumer_ = FiberIdentity::of_thread();
  resumer_switch_.leave(stack_->identity(), false);
  const Transfer from = jump_fcontext(inside_, this);
  inside_ = from.fctx;
  resumer_switch_.arrive(nullptr);
  if (ended_) spare_stacks().push_back(std::move(stack_));
}

void Fiber::suspend() {
  own_switch_.leave(resumer_, false);
  const Transfer from = jump_fcontext(outside_, nullptr);
  outside_ = from.fctx;
  own_switch_.arrive(&resumer_);
}

void Fiber::enter(Transfer from) {
  Fiber& self = *static_cast<Fiber*>(from.data);
  self.outside_ = from.fctx;
  self.own_switch_.arrive(&self.resumer_);
  self.body_(self.argument_);
  self.ended_ = true;
  self.own_switch_.leave(self.resumer_, true);
  jump_fcontext(self.outside_, nullptr);
  std::abort();  // an ended fiber was resumed
}

}  // namespace rondo::simt
