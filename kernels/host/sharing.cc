// SPDX-License-Identifier: Apache-2.0
#include "kernels/host/sharing.h"

#include <algorithm>
#include <atomic>
#include <cassert>
#include <utility>

namespace rondo::host {
namespace {

// One piece of work in a pool. A slice runs once, whatever the pool does: it is claimed by its bit.
struct PooledWork {
  static constexpr std::size_t kMaxSlices = 64;

  const SliceBody& body;
  const std::size_t bytes, slices;
  std::atomic<std::uint64_t> claimed{0};

  void run(std::int64_t begin, std::int64_t end) {
    for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i) {
      const std::uint64_t bit = std::uint64_t{1} << i;
      if ((claimed.fetch_or(bit, std::memory_order_acq_rel) & bit) != 0) continue;
      const ByteRange range = slice_of(bytes, slices, i);
      body(range.begin, range.end);
    }
  }
};

void* moved(void* at, std::size_t bytes) { return static_cast<std::byte*>(at) + bytes; }
const void* moved(const void* at, std::size_t bytes) {
  return static_cast<const std::byte*>(at) + bytes;
}

}  // namespace

void reduce_range(ReduceFn function, const ReduceArgs& args, std::size_t element, std::size_t begin,
                  std::size_t end) {
  if (begin == 0 && end == args.count * element) return function(args);
  assert(begin <= end && end <= args.count * element);
  assert(begin % element == 0 && end % element == 0);
  assert(args.source_count <= Sharing::kMaxOperands);
  assert(args.target_count <= Sharing::kMaxOperands + 1);
  const void* sources[Sharing::kMaxOperands];
  void* targets[Sharing::kMaxOperands + 1];
  for (int s = 0; s < args.source_count; ++s) sources[s] = moved(args.sources[s], begin);
  for (int t = 0; t < args.target_count; ++t) targets[t] = moved(args.targets[t], begin);
  ReduceArgs part = args;
  part.sources = sources;
  part.targets = targets;
  part.count = (end - begin) / element;
  function(part);
}

void Sharing::set_helpers(std::shared_ptr<Helpers> helpers, int threads) {
  assert(threads >= 1);
  helpers_ = std::move(helpers);
  threads_ = helpers_ == nullptr ? 1 : std::min(threads, Helpers::kMaxThreads);
  if (helpers_ != nullptr) helpers_->limit(threads_);
}

void Sharing::set_pool(ParallelFor pool) {
  set_helpers(nullptr, 1);
  pool_ = pool;
  pool_thread_ = pthread_self();
  share_from_ = pool == nullptr ? kNever : kPoolFrom;
}

void Sharing::choose(double moving_ns, bool beside) {
  assert(moving_ns >= 0 && threads_ >= 1);
  use_.threads = beside ? threads_ - 1 : threads_;
  const double saved = moving_ns * (use_.threads - 1) / use_.threads;
  owed_ns_ += saved;
  use_.wake = saved > kWakeNs || owed_ns_ > kOwedNs;
  if (use_.wake) owed_ns_ = 0;
  share_from_ = use_.threads > 1 ? kShareFrom : kNever;
}

void Sharing::share(std::size_t bytes, const SliceBody& body) {
  if (helpers_ != nullptr) return helpers_->run(bytes, use_, body);
  if (!pthread_equal(pool_thread_, pthread_self())) return body(0, bytes);
  run_in_pool(bytes, body);
}

void Sharing::run_in_pool(std::size_t bytes, const SliceBody& body) const {
  assert(pool_ != nullptr && bytes >= Helpers::kMinSlice);
  const std::size_t slices = std::min(bytes / Helpers::kMinSlice, PooledWork::kMaxSlices);
  PooledWork work{body, bytes, slices};
  const auto range = [](std::int64_t begin, std::int64_t end, void* context) {
    static_cast<PooledWork*>(context)->run(begin, end);
  };
  const auto count = static_cast<std::int64_t>(slices);
  (void)pool_(0, count, 1, range, &work);
  work.run(0, count);  // what the pool has left out
}

void Sharing::copy(void* to, const void* from, std::size_t bytes, bool stream) {
  if (to == from) return;
  run(bytes, [=](std::size_t begin, std::size_t end) {
    copy_bytes(moved(to, begin), moved(from, begin), end - begin, stream);
  });
}

void Sharing::reduce(ReduceFn function, const ReduceArgs& args, std::size_t element) {
  if (args.source_count > kMaxOperands || args.target_count > kMaxOperands + 1)
    return function(args);
  run(args.count * element, [&](std::size_t begin, std::size_t end) {
    reduce_range(function, args, element, begin, end);
  });
}

}  // namespace rondo::host
