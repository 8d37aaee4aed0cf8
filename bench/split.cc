// SPDX-License-Identifier: Apache-2.0
#include "bench/split.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <string_view>

#include "base/env.h"

namespace rondo::bench {
namespace {

constexpr int kMaxNumber = 1 << 24;

std::optional<int> parse_number(std::string_view text) {
  int base = 10;
  if (text.starts_with("0x"))
    base = 16, text.remove_prefix(2);
  else if (text.starts_with("0b"))
    base = 2, text.remove_prefix(2);
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, base);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  if (number < 0 || number > kMaxNumber) return std::nullopt;
  return number;
}

}  // namespace

Result<Split> Split::parse(const std::string& text) {
  std::string plain;
  for (const unsigned char c : text)
    if (std::isspace(c) == 0) plain += static_cast<char>(std::tolower(c));
  Split split;
  if (plain.empty()) return split;
  struct Row {
    std::string_view name;
    Op op;
  };
  for (const Row& row :
       {Row{"and", Op::kAnd}, Row{"or", Op::kOr}, Row{"mod", Op::kMod}, Row{"div", Op::kDiv},
        Row{"&", Op::kAnd}, Row{"|", Op::kOr}, Row{"%", Op::kMod}, Row{"/", Op::kDiv}}) {
    if (!plain.starts_with(row.name)) continue;
    const auto number = parse_number(std::string_view(plain).substr(row.name.size()));
    const bool divides = row.op == Op::kMod || row.op == Op::kDiv;
    if (!number || (divides && *number == 0)) break;
    split.op_ = row.op, split.number_ = *number;
    return split;
  }
  return fail(StatusCode::kInvalidUsage,
              "NCCL_TESTS_SPLIT='{}' is not AND, OR, MOD or DIV and a number, such as 'MOD 2'",
              text);
}

Result<Split> Split::from_environment() {
  const std::string mask = env::get_string("NCCL_TESTS_SPLIT_MASK");
  const std::string text = env::get_string("NCCL_TESTS_SPLIT");
  if (mask.empty() || !text.empty()) return parse(text);
  auto split = parse("and" + std::string(mask.starts_with("0x") ? "" : "0x") + mask);
  if (split.ok()) return split;
  return fail(StatusCode::kInvalidUsage, "NCCL_TESTS_SPLIT_MASK='{}' is not a hexadecimal number",
              mask);
}

int Split::group_of(int rank) const {
  switch (op_) {
    case Op::kAnd:
      return rank & number_;
    case Op::kOr:
      return rank | number_;
    case Op::kMod:
      return rank % number_;
    case Op::kDiv:
      return rank / number_;
    case Op::kNone:
      break;
  }
  return 0;
}

Split::Member Split::place_of(int rank, int ranks) const {
  Member place{group_of(rank), 0, 0};
  for (int r = 0; r < ranks; ++r) {
    if (group_of(r) != place.group) continue;
    ++place.ranks;
    place.rank += r < rank;
  }
  return place;
}

std::set<int> Split::sizes(int ranks) const {
  std::set<int> found;
  for (int r = 0; r < ranks; ++r) found.insert(place_of(r, ranks).ranks);
  return found;
}

}  // namespace rondo::bench
