#include "tests/golden/golden.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <regex>
#include <sstream>

namespace rondo::test {
namespace {

std::string path_of(const std::string& name) { return std::string(RONDO_GOLDEN_DIR "/") + name; }

constexpr const char* kHowToAccept = "\nwhere that is meant: RONDO_GOLDEN=write and read the diff";

bool writes() {
  const char* wish = std::getenv("RONDO_GOLDEN");
  return wish != nullptr && std::strcmp(wish, "write") == 0;
}

void write_file(const std::string& name, const std::string& text) {
  std::ofstream file(path_of(name), std::ios::trunc);
  file << text;
  file.close();
  ASSERT_TRUE(file.good()) << "cannot write " << path_of(name);
}

testing::AssertionResult read_file(const std::string& name, std::string* text) {
  std::ifstream file(path_of(name));
  if (!file.good())
    return testing::AssertionFailure()
           << "there is no " << path_of(name)
           << "; RONDO_GOLDEN=write makes it from what the program says now";
  std::ostringstream kept;
  kept << file.rdbuf();
  *text = kept.str();
  return testing::AssertionSuccess();
}

// The first cells of a row.
std::string key_of(const std::string& row, int keys) {
  std::size_t end = 0;
  for (int i = 0; i < keys && end != std::string::npos; ++i) end = row.find(',', end + 1);
  return row.substr(0, end);
}

std::string with_number(int line, const std::string& text) {
  return "line " + std::to_string(line) + ": " + text;
}

// The first line that differs, in both versions.
std::string difference(const std::string& expected, const std::string& found) {
  std::istringstream left(expected), right(found);
  for (int line = 1;; ++line) {
    std::string a, b;
    const bool more_a = static_cast<bool>(std::getline(left, a));
    const bool more_b = static_cast<bool>(std::getline(right, b));
    if (!more_a && !more_b) return "they differ in their last newline";
    if (more_a && more_b && a == b) continue;
    return "golden, " + with_number(line, more_a ? a : "(no more lines)") + "\nnow,    " +
           with_number(line, more_b ? b : "(no more lines)");
  }
}

}  // namespace

std::string masked(std::string text) {
  static const std::pair<std::regex, const char*> kMasks[] = {
      {std::regex(R"(\[[0-9a-f:]*:[0-9a-f:.]*(%\w+)?\](:\d+)?)"), "<address>"},
      {std::regex(R"(\b\d{1,3}(\.\d{1,3}){3}(:\d+)?\b)"), "<address>"},
      {std::regex(R"(\b0x[0-9a-f]+\b)"), "<pointer>"},
      {std::regex(R"(\b(pid|process) \d+\b)"), "$1 <pid>"},
      {std::regex(R"(\(pid <pid> on [^)]+\))"), "(pid <pid> on <host>)"},
      {std::regex(R"(\b\d+(\.\d+)? ms\b)"), "<ms>"},
      {std::regex(R"(\b\d+(\.\d+)? s\b)"), "<s>"},
  };
  for (const auto& [pattern, mask] : kMasks) text = std::regex_replace(text, pattern, mask);
  return text;
}

void expect_golden(const std::string& name, const std::string& text) {
  if (writes()) return write_file(name, text);
  std::string kept;
  ASSERT_TRUE(read_file(name, &kept));
  EXPECT_TRUE(kept == text) << "tests/golden/files/" << name << "\n"
                            << difference(kept, text) << kHowToAccept;
}

void expect_golden_rows(const std::string& name, const std::string& header,
                        const std::vector<std::string>& rows, int keys) {
  if (writes()) {
    std::string text = header + "\n";
    for (const std::string& row : rows) text += row + "\n";
    return write_file(name, text);
  }
  std::string text;
  ASSERT_TRUE(read_file(name, &text));
  std::istringstream lines(text);
  std::string line;
  std::getline(lines, line);
  EXPECT_EQ(line, header) << "tests/golden/files/" << name << kHowToAccept;
  std::map<std::string, std::string> kept;
  while (std::getline(lines, line)) kept[key_of(line, keys)] = line;
  const auto differ = [&](const std::string& expected, const std::string& now) {
    ADD_FAILURE() << "tests/golden/files/" << name << ", columns " << header << "\ngolden, "
                  << expected << "\nnow,    " << now << kHowToAccept;
  };
  for (const std::string& row : rows) {
    auto expected = kept.extract(key_of(row, keys));
    if (expected.empty()) {
      differ("(no such row)", row);
    } else if (expected.mapped() != row) {
      differ(expected.mapped(), row);
    }
  }
  for (const auto& [key, row] : kept) differ(row, "(no such row)");
}

// Sections begin with "== NAME", texts with "-- ".
GoldenSets::GoldenSets(std::string name) : name_(std::move(name)) {
  if (writes()) return;
  std::ifstream file(path_of(name_));
  EXPECT_TRUE(file.good()) << "there is no " << path_of(name_)
                           << "; RONDO_GOLDEN=write makes it from what the program says now";
  std::string section, text;
  const auto take = [&] {
    if (!text.empty()) kept_[section].insert(text);
    text.clear();
  };
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("== ")) {
      take();
      section = line.substr(3);
    } else if (line.starts_with("-- ")) {
      take();
      text = line.substr(3);
    } else {
      text += "\n" + line;
    }
  }
  take();
}

GoldenSets::~GoldenSets() {
  if (!writes()) return;
  std::ofstream file(path_of(name_), std::ios::trunc);
  for (const std::string& section : order_) {
    file << "== " << section << "\n";
    for (const std::string& text : kept_[section]) file << "-- " << text << "\n";
  }
  file.close();
  EXPECT_TRUE(file.good()) << "cannot write " << path_of(name_);
}

// Sections begin with "== NAME"; then one name and one number per line.
GoldenCounts::GoldenCounts(std::string name) : name_(std::move(name)) {
  if (writes()) return;
  std::ifstream file(path_of(name_));
  EXPECT_TRUE(file.good()) << "there is no " << path_of(name_)
                           << "; RONDO_GOLDEN=write makes it from what the program does now";
  std::string section;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("== ")) {
      section = line.substr(3);
      continue;
    }
    std::istringstream words(line);
    std::string what;
    words >> what >> kept_[section][what];
    EXPECT_FALSE(words.fail()) << path_of(name_) << ": " << line;
  }
}

GoldenCounts::~GoldenCounts() {
  if (!writes()) return;
  std::ofstream file(path_of(name_), std::ios::trunc);
  for (const std::string& section : order_) {
    file << "== " << section << "\n";
    for (const auto& [what, count] : kept_[section]) file << what << " " << count << "\n";
  }
  file.close();
  EXPECT_TRUE(file.good()) << "cannot write " << path_of(name_);
}

void GoldenCounts::expect(const std::string& section,
                          const std::map<std::string, std::uint64_t>& counts) {
  auto& kept = kept_[section];
  if (writes()) {
    if (std::find(order_.begin(), order_.end(), section) == order_.end()) order_.push_back(section);
    for (const auto& [what, count] : counts) kept[what] = std::max(kept[what], count);
    return;
  }
  for (const auto& [what, count] : counts) {
    const auto known = kept.find(what);
    const std::uint64_t most = known == kept.end() ? 0 : known->second;
    EXPECT_LE(count, most) << "tests/golden/files/" << name_ << ", " << section << ": " << what
                           << kHowToAccept;
  }
}

bool GoldenSets::writes() const { return test::writes(); }

bool GoldenSets::knows(const std::string& section, const std::string& text) const {
  const auto known = kept_.find(section);
  return known != kept_.end() && known->second.contains(text);
}

void GoldenSets::expect(const std::string& section, const std::string& text) {
  std::set<std::string>& known = kept_[section];
  if (writes()) {
    if (known.empty()) order_.push_back(section);
    known.insert(text);
    return;
  }
  if (knows(section, text)) return;
  std::string expected;
  for (const std::string& one : known) expected += "\n-- " + one;
  ADD_FAILURE() << "tests/golden/files/" << name_ << ", " << section << ": now\n"
                << text << "\nis none of" << expected << kHowToAccept;
}

}  // namespace rondo::test
