// Expressions: the values of buffer elements while the checker runs an algorithm. A value is not a
// number but the expression over (rank, element) that computes it.
//
// Equal expressions are one node (hash-consing), so comparing two is comparing two integers, and a
// sum over 64 ranks that every rank computes takes 63 nodes. No operation is assumed to be
// commutative or associative: the order is part of the result. Cost: one hash lookup per operation.
//
//   Expr sum = pool.combine(pool.input(0, /*rank=*/0, 7), pool.input(0, /*rank=*/1, 7));
//   pool.text(sum)  ->  "(r0[7] + r1[7])"
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace rondo::check {

using Expr = std::uint32_t;
inline constexpr Expr kNothing = 0;  // the value of unwritten memory

class Expressions {
 public:
  Expressions();

  // Element `element` of the input of `rank` in call number `call`.
  Expr input(int call, int rank, std::uint64_t element);
  Expr combine(Expr left, Expr right);
  // The reduction's last step, after all ranks are combined (avg divides).
  Expr finish(Expr whole);

  std::string text(Expr expr) const;
  std::size_t size() const { return nodes_.size(); }

 private:
  enum class Kind : std::uint32_t { kNone, kInput, kCombine, kFinish };
  struct Node {
    Kind kind;
    std::uint32_t a;
    std::uint32_t b;
    friend bool operator==(const Node&, const Node&) = default;
  };
  Expr intern(const Node& node);
  void grow();

  std::vector<Node> nodes_;
  std::vector<Expr> table_;  // open addressing; kNothing: empty
};

// The balanced binary tree over `values`: split at the largest power of two below their number.
Expr balanced_tree(Expressions& pool, const std::vector<Expr>& values);

}  // namespace rondo::check
