// SPDX-License-Identifier: Apache-2.0
#include "tests/checker/call_spec.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/double_tree.h"
#include "kernels/algorithms/rerooted_tree.h"

namespace rondo::check {
namespace {

// The balanced tree over the ranks of one host.
Expr sum_of(Expressions& pool, const std::vector<int>& host, int call, std::uint64_t element) {
  std::vector<Expr> inputs;
  for (const int r : host) inputs.push_back(pool.input(call, r, element));
  return balanced_tree(pool, inputs);
}

// The sum of the subtree at a position. links_of(position) returns that position's links.
template <class LinksOf>
Expr subtree(Expressions& pool, const LinksOf& links_of, const std::vector<int>& order, int call,
             std::uint64_t element, int position) {
  const auto links = links_of(position);
  const auto child = [&](int i) {
    return subtree(pool, links_of, order, call, element, links.child[i]);
  };
  const int rank = order.empty() ? position : order[static_cast<std::size_t>(position)];
  Expr sum = pool.input(call, rank, element);
  if (links.child[0] != kNoRank) sum = pool.combine(child(0), sum);
  if (links.child[1] != kNoRank) sum = pool.combine(sum, child(1));
  return sum;
}

}  // namespace

Reduced tree_order(int ranks) {
  return [ranks](Expressions& pool, int call, std::uint64_t element) {
    std::vector<Expr> inputs;
    for (int r = 0; r < ranks; ++r) inputs.push_back(pool.input(call, r, element));
    return balanced_tree(pool, inputs);
  };
}

Reduced host_tree_order(std::vector<std::vector<int>> hosts) {
  return [hosts = std::move(hosts)](Expressions& pool, int call, std::uint64_t element) {
    std::vector<Expr> sums;
    for (const std::vector<int>& host : hosts) sums.push_back(sum_of(pool, host, call, element));
    return balanced_tree(pool, sums);
  };
}

Reduced host_ring_order(std::vector<std::vector<int>> hosts,
                        std::function<int(std::uint64_t)> first) {
  return [hosts = std::move(hosts), first = std::move(first)](Expressions& pool, int call,
                                                              std::uint64_t element) {
    const std::size_t start = first(element), n = hosts.size();
    Expr sum = sum_of(pool, hosts[start % n], call, element);
    for (std::size_t k = 1; k < n; ++k)
      sum = pool.combine(sum, sum_of(pool, hosts[(start + k) % n], call, element));
    return sum;
  };
}

Reduced ring_order(std::vector<int> ring, std::function<int(std::uint64_t)> first) {
  return [ring = std::move(ring), first = std::move(first)](Expressions& pool, int call,
                                                            std::uint64_t element) {
    const std::size_t start = first(element), n = ring.size();
    Expr sum = pool.input(call, ring[start % n], element);
    for (std::size_t k = 1; k < n; ++k)
      sum = pool.combine(sum, pool.input(call, ring[(start + k) % n], element));
    return sum;
  };
}

Reduced double_tree_order(int ranks, int root, const std::function<int(std::uint64_t)>& tree,
                          const std::vector<int>& order) {
  return [=](Expressions& pool, int call, std::uint64_t element) {
    const int which = tree(element);
    int top = root;
    for (int p = 0; top < 0; ++p)
      if (double_tree(p, ranks, which).parent == kNoRank) top = p;
    const auto links_of = [&](int p) {
      return root < 0 ? double_tree(p, ranks, which) : rooted_double_tree(p, root, ranks, which);
    };
    return subtree(pool, links_of, order, call, element, top);
  };
}

Reduced rerooted_tree_order(int ranks, int root, const std::function<int(std::uint64_t)>& tree,
                            const std::vector<int>& order) {
  return [=](Expressions& pool, int call, std::uint64_t element) {
    const int which = tree(element);
    const auto links_of = [&](int p) { return rerooted_double_tree(p, root, ranks, which); };
    return subtree(pool, links_of, order, call, element, root);
  };
}

std::uint64_t CallSpec::input_size(int rank) const {
  switch (collective) {
    case Collective::kBroadcast:
      return rank == root ? count : 0;
    case Collective::kScatter:
      return rank == root ? count * ranks : 0;
    case Collective::kReduceScatter:
    case Collective::kAllToAll:
      return count * ranks;
    case Collective::kBarrier:
      return 0;
    default:
      return count;
  }
}

std::uint64_t CallSpec::output_size(int rank) const {
  switch (collective) {
    case Collective::kReduce:
      return rank == root ? count : 0;
    case Collective::kGather:
      return rank == root ? count * ranks : 0;
    case Collective::kAllGather:
    case Collective::kAllToAll:
      return count * ranks;
    case Collective::kBarrier:
      return 0;
    default:
      return count;
  }
}

UserBuffers::UserBuffers(Witness& witness, Expressions& pool, const CallSpec& spec, int call,
                         int rank)
    : witness_(&witness), pool_(&pool), owner_(fmt::format("rank {}, call {}", rank, call)) {
  input_size_ = spec.input_size(rank);
  output_size_ = spec.output_size(rank);
  input_begin_ = output_begin_ = kGuard;
  std::uint64_t size = std::max(input_size_, output_size_);
  if (!spec.in_place || input_size_ == 0 || output_size_ == 0) {
    output_begin_ = input_begin_ + input_size_ + kGuard;
    size = input_size_ + kGuard + output_size_;
  } else if (input_size_ > output_size_) {  // reduce-scatter, scatter: this rank's block
    output_begin_ += rank * spec.count;
  } else if (input_size_ < output_size_) {  // all-gather, gather
    input_begin_ += rank * spec.count;
  }
  memory_ = TrackedMemory(witness, fmt::format("the buffers of {}", owner_), size + 2 * kGuard);
  before_.resize(memory_.size());
  for (std::uint64_t at = 0; at < memory_.size(); ++at) {
    const bool is_input = at >= input_begin_ && at < input_begin_ + input_size_;
    // Other memory has values too: element numbers that no input has.
    before_[at] = pool.input(call, rank, is_input ? at - input_begin_ : (1u << 30) + at);
    memory_.set(at, before_[at]);
  }
}

bool UserBuffers::inside(std::uint64_t at, std::uint64_t size, const char* what, int thread) {
  if (at < size) return true;
  witness_->verdict.report(fmt::format("{} touches element {} of the {} of {}, which has {}",
                                       witness_->names[thread], at, what, owner_, size));
  return false;
}

Expr UserBuffers::read_input(std::uint64_t at, int thread) {
  if (!inside(at, input_size_, "input", thread)) return kNothing;
  return memory_.read(input_begin_ + at, thread);
}

void UserBuffers::write_output(std::uint64_t at, int thread, Expr value) {
  if (inside(at, output_size_, "output", thread)) memory_.write(output_begin_ + at, thread, value);
}

Expr UserBuffers::read_output(std::uint64_t at, int thread) {
  if (!inside(at, output_size_, "output", thread)) return kNothing;
  return memory_.read(output_begin_ + at, thread);
}

void UserBuffers::finish(const std::vector<Expr>& expected, int thread) {
  for (std::uint64_t i = 0; i < output_size_; ++i) {
    const Expr found = memory_.read(output_begin_ + i, thread);
    if (found == expected[i]) continue;
    if (!witness_->verdict.ok()) return;
    witness_->verdict.report(fmt::format("output element {} of {} is {} and should be {}", i,
                                         owner_, pool_->text(found), pool_->text(expected[i])));
  }
  for (std::uint64_t at = 0; at < memory_.size(); ++at) {
    const bool is_output = at >= output_begin_ && at < output_begin_ + output_size_;
    if (!is_output && memory_.peek(at) != before_[at])
      witness_->verdict.report(fmt::format("memory outside the output of {} has changed", owner_));
    memory_.write(at, thread, before_[at]);
  }
}

Expectation::Expectation(Expressions& pool, const CallSpec& spec, int call)
    : pool_(&pool), spec_(spec), call_(call) {
  if (!reduces(spec.collective)) return;
  const std::uint64_t elements =
      spec.collective == Collective::kReduceScatter ? spec.count * spec.ranks : spec.count;
  for (std::uint64_t e = 0; e < elements; ++e)
    whole_.push_back(pool.finish(spec.reduced(pool, call, e)));
}

std::vector<Expr> Expectation::output(int rank) const {
  std::vector<Expr> expected(spec_.output_size(rank));
  for (std::uint64_t i = 0; i < expected.size(); ++i) {
    const int block = static_cast<int>(i / spec_.count);
    switch (spec_.collective) {
      case Collective::kAllReduce:
      case Collective::kReduce:
        expected[i] = whole_[i];
        break;
      case Collective::kReduceScatter:
        expected[i] = whole_[rank * spec_.count + i];
        break;
      case Collective::kBroadcast:
        expected[i] = pool_->input(call_, spec_.root, i);
        break;
      case Collective::kScatter:
        expected[i] = pool_->input(call_, spec_.root, rank * spec_.count + i);
        break;
      case Collective::kAllToAll:
        expected[i] = pool_->input(call_, block, rank * spec_.count + i % spec_.count);
        break;
      default:  // all-gather, gather
        expected[i] = pool_->input(call_, block, i % spec_.count);
    }
  }
  return expected;
}

}  // namespace rondo::check
