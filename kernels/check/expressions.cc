#include "kernels/check/expressions.h"

#include <fmt/format.h>

#include <bit>

namespace rondo::check {
namespace {

std::size_t hash(std::uint32_t kind, std::uint32_t a, std::uint32_t b) {
  std::uint64_t x = (std::uint64_t{a} << 32 | b) + kind * 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 32)) * 0xd6e8feb86659fd93u;
  return static_cast<std::size_t>(x ^ (x >> 32));
}

Expr tree_over(Expressions& pool, const Expr* values, std::size_t count) {
  if (count == 1) return values[0];
  const std::size_t left = std::bit_floor(count - 1);
  const Expr low = tree_over(pool, values, left);
  return pool.combine(low, tree_over(pool, values + left, count - left));
}

}  // namespace

Expressions::Expressions() : nodes_{{Kind::kNone, 0, 0}}, table_(1 << 12, kNothing) {}

Expr Expressions::intern(const Node& node) {
  const std::size_t mask = table_.size() - 1;
  std::size_t at = hash(static_cast<std::uint32_t>(node.kind), node.a, node.b) & mask;
  while (table_[at] != kNothing) {
    if (nodes_[table_[at]] == node) return table_[at];
    at = (at + 1) & mask;
  }
  const auto expr = static_cast<Expr>(nodes_.size());
  nodes_.push_back(node);
  table_[at] = expr;
  if (nodes_.size() * 2 > table_.size()) grow();
  return expr;
}

void Expressions::grow() {
  table_.assign(table_.size() * 2, kNothing);
  const std::size_t mask = table_.size() - 1;
  for (Expr expr = 1; expr < nodes_.size(); ++expr) {
    const Node& node = nodes_[expr];
    std::size_t at = hash(static_cast<std::uint32_t>(node.kind), node.a, node.b) & mask;
    while (table_[at] != kNothing) at = (at + 1) & mask;
    table_[at] = expr;
  }
}

Expr Expressions::input(int call, int rank, std::uint64_t element) {
  const auto who = static_cast<std::uint32_t>(call) << 16 | static_cast<std::uint32_t>(rank);
  return intern({Kind::kInput, who, static_cast<std::uint32_t>(element)});
}

Expr Expressions::combine(Expr left, Expr right) { return intern({Kind::kCombine, left, right}); }

Expr Expressions::finish(Expr whole) { return intern({Kind::kFinish, whole, 0}); }

std::string Expressions::text(Expr expr) const {
  const Node& node = nodes_[expr];
  switch (node.kind) {
    case Kind::kNone:
      return "nothing";
    case Kind::kInput: {
      const std::uint32_t call = node.a >> 16;
      return call == 0 ? fmt::format("r{}[{}]", node.a & 0xffff, node.b)
                       : fmt::format("c{}.r{}[{}]", call, node.a & 0xffff, node.b);
    }
    case Kind::kCombine:
      return fmt::format("({} + {})", text(node.a), text(node.b));
    case Kind::kFinish:
      return fmt::format("finish{}", text(node.a));
  }
  return "";
}

Expr balanced_tree(Expressions& pool, const std::vector<Expr>& values) {
  return tree_over(pool, values.data(), values.size());
}

}  // namespace rondo::check
