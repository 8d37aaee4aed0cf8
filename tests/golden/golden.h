// SPDX-License-Identifier: Apache-2.0
// Golden files: the program's messages to users, kept whole in tests/golden/files, so that a change
// of code shows every changed word.
//
// With RONDO_GOLDEN=write the files are rewritten from the program's current output; read their
// diff before you commit it. Mask what differs from run to run first; if the order of lines depends
// on timing, sort them first.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace rondo::test {

// Returns `text` with values of one run replaced: "<pid>" after "pid" or "process", "<host>" after
// "(pid N on", "<s>" for seconds, "<ms>" for milliseconds, "<address>" for IPv4 and IPv6 addresses
// with their ports, "<pointer>".
std::string masked(std::string text);

// Fails if tests/golden/files/`name` holds a different text. Shows the first line that differs and
// the command that would accept it.
void expect_golden(const std::string& name, const std::string& text);

// The same for a table: a line `header`, then rows of comma-separated cells, whose first `keys`
// cells name the row. Fails for each row that is changed, new or missing, and shows both versions.
void expect_golden_rows(const std::string& name, const std::string& header,
                        const std::vector<std::string>& rows, int keys);

// A golden file of sections. Each lists all texts that can occur, in alphabetical order, for texts
// that depend on timing; and for each text the layouts where it can occur.
class GoldenSets {
 public:
  GoldenSets(std::string name, std::string layout);
  ~GoldenSets();  // if RONDO_GOLDEN=write, writes this layout's part of the file
  GoldenSets(const GoldenSets&) = delete;
  GoldenSets& operator=(const GoldenSets&) = delete;

  bool writes() const;
  bool knows(const std::string& section, const std::string& text) const;
  // Fails if the section does not have this text.
  void expect(const std::string& section, const std::string& text);

 private:
  const std::string name_;
  const std::string layout_;
  std::map<std::string, std::map<std::string, std::set<std::string>>> kept_;  // text: its layouts
  std::vector<std::string> order_;                                            // of the sections
};

// A golden file of counts that can fall and must not rise, by layout, section and name. Each line
// has the counts of one section.
class GoldenCounts {
 public:
  GoldenCounts(std::string name, std::string layout);
  ~GoldenCounts();  // if RONDO_GOLDEN=write, writes the maximum of each count of this layout
  GoldenCounts(const GoldenCounts&) = delete;
  GoldenCounts& operator=(const GoldenCounts&) = delete;

  // Fails for every count that is higher than the file's. A count that is missing in the file is 0.
  void expect(const std::string& section, const std::map<std::string, std::uint64_t>& counts);

 private:
  const std::string name_;
  const std::string layout_;
  std::map<std::string, std::map<std::string, std::uint64_t>> kept_;  // of this layout
  std::vector<std::string> order_;                                    // of the sections
  std::vector<std::string> others_;                                   // lines of other layouts
};

}  // namespace rondo::test
