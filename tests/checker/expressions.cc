// SPDX-License-Identifier: Apache-2.0
#include "tests/checker/expressions.h"

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

void TrackedMemory::report(const char* verb, std::uint64_t at, int thread, const char* earlier,
                           Stamp by) {
  witness_->verdict.report(
      fmt::format("{} {} element {} of {}, and no signal orders it after {} {}",
                  witness_->names[thread], verb, at, name_, witness_->names[by.thread], earlier));
}

void TrackedMemory::add_reader(Cell& cell, Stamp reader) {
  if (cell.reader.time == 0 || cell.reader.thread == reader.thread) {
    cell.reader = reader;
    return;
  }
  if (cell.more == 0) {
    if (free_readers_.empty()) {
      readers_.emplace_back();
      free_readers_.push_back(static_cast<std::uint32_t>(readers_.size()));
    }
    cell.more = free_readers_.back();
    free_readers_.pop_back();
    readers_[cell.more - 1].clear();
  }
  auto& others = readers_[cell.more - 1];
  for (Stamp& other : others) {
    if (other.thread != reader.thread) continue;
    other = reader;
    return;
  }
  others.push_back(reader);
}

bool TrackedMemory::inside(std::uint64_t at, int thread) {
  if (at < cells_.size()) return true;
  witness_->verdict.report(fmt::format("{} touches element {} of {}, which has {}",
                                       witness_->names[thread], at, name_, cells_.size()));
  return false;
}

Expr TrackedMemory::read(std::uint64_t at, int thread) {
  if (!inside(at, thread)) return kNothing;
  Cell& cell = cells_[at];
  const Clocks& clocks = witness_->clocks;
  if (!clocks.before(cell.writer, thread)) report("reads", at, thread, "writing it", cell.writer);
  if (cell.value == kNothing)
    witness_->verdict.report(fmt::format("{} reads element {} of {}, which nobody has written",
                                         witness_->names[thread], at, name_));
  add_reader(cell, clocks.now(thread));
  return cell.value;
}

void TrackedMemory::write(std::uint64_t at, int thread, Expr value) {
  if (!inside(at, thread)) return;
  Cell& cell = cells_[at];
  const Clocks& clocks = witness_->clocks;
  if (!clocks.before(cell.writer, thread))
    report("overwrites", at, thread, "writing it", cell.writer);
  if (!clocks.before(cell.reader, thread))
    report("overwrites", at, thread, "reading it", cell.reader);
  if (cell.more != 0) {
    for (const Stamp& reader : readers_[cell.more - 1])
      if (!clocks.before(reader, thread)) report("overwrites", at, thread, "reading it", reader);
    free_readers_.push_back(cell.more);
  }
  cell = {value, clocks.now(thread), {}, 0};
}

}  // namespace rondo::check
