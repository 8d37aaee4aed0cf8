// SPDX-License-Identifier: Apache-2.0
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

std::string path_of(const std::string& name) {
  return name.starts_with('/') ? name : std::string(RONDO_GOLDEN_DIR "/") + name;
}

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

// Tests that write parts of a file (one layout each) must run one after another.
std::vector<std::string> lines_of(const std::string& name) {
  std::string text;
  const auto read = read_file(name, &text);
  EXPECT_TRUE(read || writes()) << read.message();
  std::istringstream stream(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
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

// Sections begin with "== NAME", texts with "-- [LAYOUTS] ".
GoldenSets::GoldenSets(std::string name, std::string layout)
    : name_(std::move(name)), layout_(std::move(layout)) {
  std::string section, text;
  std::set<std::string> layouts;
  const auto take = [&] {
    if (writes()) layouts.erase(layout_);
    if (!layouts.empty()) kept_[section][text] = layouts;
    layouts.clear();
  };
  for (const std::string& line : lines_of(name_)) {
    if (line.starts_with("== ")) {
      take();
      section = line.substr(3);
      order_.push_back(section);
    } else if (line.starts_with("-- [")) {
      take();
      const std::size_t end = line.find("] ");
      text = line.substr(end + 2);
      std::istringstream words(line.substr(4, end - 4));
      for (std::string word; words >> word;) layouts.insert(word);
    } else {
      text += "\n" + line;
    }
  }
  take();
}

GoldenSets::~GoldenSets() {
  if (!writes()) return;
  std::string file;
  for (const std::string& section : order_) {
    if (kept_[section].empty()) continue;
    file += "== " + section + "\n";
    for (const auto& [text, layouts] : kept_[section]) {
      std::string names;
      for (const std::string& layout : layouts) names += (names.empty() ? "" : " ") + layout;
      file += "-- [" + names + "] " + text + "\n";
    }
  }
  write_file(name_, file);
}

// A line: "LAYOUT, SECTION: NAME COUNT, NAME COUNT".
GoldenCounts::GoldenCounts(std::string name, std::string layout)
    : name_(std::move(name)), layout_(std::move(layout)) {
  for (const std::string& line : lines_of(name_)) {
    if (!line.starts_with(layout_ + ", ")) {
      others_.push_back(line);
      continue;
    }
    if (writes()) continue;
    const std::size_t begin = layout_.size() + 2, end = line.find(':');
    std::istringstream counts(line.substr(end + 1));
    auto& kept = kept_[line.substr(begin, end - begin)];
    for (std::string one; std::getline(counts, one, ',');) {
      std::istringstream words(one);
      std::string what;
      words >> what >> kept[what];
      EXPECT_FALSE(words.fail()) << path_of(name_) << ": " << line;
    }
  }
}

GoldenCounts::~GoldenCounts() {
  if (!writes()) return;
  for (const std::string& section : order_) {
    std::string line = layout_ + ", " + section + ":";
    for (const auto& [what, count] : kept_[section])
      line += (line.back() == ':' ? " " : ", ") + what + " " + std::to_string(count);
    others_.push_back(line);
  }
  std::sort(others_.begin(), others_.end());
  std::string file;
  for (const std::string& line : others_) file += line + "\n";
  write_file(name_, file);
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
    const std::uint64_t maximum = known == kept.end() ? 0 : known->second;
    EXPECT_LE(count, maximum) << "tests/golden/files/" << name_ << ", " << layout_ << ", "
                              << section << ": " << what << kHowToAccept;
  }
}

bool GoldenSets::writes() const { return test::writes(); }

bool GoldenSets::knows(const std::string& section, const std::string& text) const {
  const auto known = kept_.find(section);
  if (known == kept_.end()) return false;
  const auto found = known->second.find(text);
  return found != known->second.end() && found->second.contains(layout_);
}

void GoldenSets::expect(const std::string& section, const std::string& text) {
  if (writes()) {
    if (std::find(order_.begin(), order_.end(), section) == order_.end()) order_.push_back(section);
    kept_[section][text].insert(layout_);
    return;
  }
  if (knows(section, text)) return;
  std::string expected;
  for (const auto& [one, layouts] : kept_[section])
    if (layouts.contains(layout_)) expected += "\n-- " + one;
  ADD_FAILURE() << "tests/golden/files/" << name_ << ", " << section << ", " << layout_ << ": now\n"
                << text << "\nis none of" << expected << kHowToAccept;
}

}  // namespace rondo::test
