// Golden files: texts that the program says to people, kept whole in tests/golden/files, so that a
// change of code shows each word that it changes.
//
// RONDO_GOLDEN=write: the files become what the program says now; read their diff before you commit
// it. What differs from run to run is masked first; where order races, sort the lines first.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace rondo::test {

// `text` with what only one run has replaced: "<pid>" after "pid" or "process", "<host>" after
// "(pid N on", "<s>" for seconds, "<ms>" for milliseconds, "<address>" for IPv4 and IPv6 addresses
// with their ports, "<pointer>".
std::string masked(std::string text);

// A failed expectation where tests/golden/files/`name` holds another text: it shows the first line
// that differs and the command that would accept it.
void expect_golden(const std::string& name, const std::string& text);

// The same of a table: a line `header`, then rows of cells between commas, of which the first
// `keys` name the row. A failed expectation for each row that is another, new or gone, as both have
// it.
void expect_golden_rows(const std::string& name, const std::string& header,
                        const std::vector<std::string>& rows, int keys);

// A golden file of sections, each with all texts that may occur there, in order of the alphabet:
// for texts of which chance decides which is said.
class GoldenSets {
 public:
  explicit GoldenSets(std::string name);
  ~GoldenSets();  // writes the file, where that is wanted
  GoldenSets(const GoldenSets&) = delete;
  GoldenSets& operator=(const GoldenSets&) = delete;

  bool writes() const;
  bool knows(const std::string& section, const std::string& text) const;
  // A failed expectation where the section does not have this text.
  void expect(const std::string& section, const std::string& text);

 private:
  const std::string name_;
  std::map<std::string, std::set<std::string>> kept_;
  std::vector<std::string> order_;  // of the sections
};

// A golden file of counts that may fall and must not rise: of each section, by name.
class GoldenCounts {
 public:
  explicit GoldenCounts(std::string name);
  ~GoldenCounts();  // writes the file, where that is wanted: the maximum of each
  GoldenCounts(const GoldenCounts&) = delete;
  GoldenCounts& operator=(const GoldenCounts&) = delete;

  // A failed expectation for every count that is higher than the file's; what the file does not
  // have is 0.
  void expect(const std::string& section, const std::map<std::string, std::uint64_t>& counts);

 private:
  const std::string name_;
  std::map<std::string, std::map<std::string, std::uint64_t>> kept_;
  std::vector<std::string> order_;  // of the sections
};

}  // namespace rondo::test
