// SPDX-License-Identifier: Apache-2.0
// The test profiler plugin (test_profiler.c): paths of its libraries, and the lines that it wrote.
#pragma once

#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

namespace rondo::test {

// "": the library with all versions of the interface. "1" to "6": with that version alone. "7":
// with none. "-throws": throwing_profiler.cc.
inline std::string profiler_file(const std::string& version = "") {
  std::string file = RONDO_TEST_PROFILER_FILE;
  return file.replace(file.find('%'), 1, version);
}

// "start id=2 kind=512": its first word, and the others by name.
struct ProfilerLine {
  std::string what, text;
  std::map<std::string, std::string> words;

  std::string of(const std::string& word) const {
    const auto at = words.find(word);
    return at == words.end() ? "" : at->second;
  }
  long number(const std::string& word) const { return std::atol(of(word).c_str()); }
};

// What the plugin of one process wrote about one rank; -1: about all. Versions 1 to 3 do not tell
// it the rank.
inline std::vector<ProfilerLine> profiler_lines(const std::string& folder, long pid,
                                                long rank = -1) {
  std::vector<ProfilerLine> lines;
  std::ifstream file(folder + "/" + std::to_string(pid));
  for (std::string text; std::getline(file, text);) {
    ProfilerLine line;
    line.text = text;
    std::istringstream words(text);
    words >> line.what;
    for (std::string word; words >> word;) {
      const std::size_t equal = word.find('=');
      if (equal != std::string::npos) line.words[word.substr(0, equal)] = word.substr(equal + 1);
    }
    const long of = line.what == "wrong" ? -1 : line.number("rank");
    if (rank < 0 || of < 0 || of == rank) lines.push_back(line);
  }
  return lines;
}

// The order of events: "init +GroupApi !23 +CollApi<GroupApi -CollApi ... end": start, state, stop;
// a child names its parent's kind. Wrong lines are part of it.
inline std::string shape_of(const std::vector<ProfilerLine>& lines) {
  const auto kind_name = [](long kind) -> std::string {
    switch (kind) {
      case 1:
        return "Group";
      case 2:
        return "Coll";
      case 4:
        return "P2p";
      case 256:
        return "GroupApi";
      case 512:
        return "CollApi";
      case 1024:
        return "P2pApi";
      default:
        return "kind " + std::to_string(kind);
    }
  };
  std::map<long, long> kinds;
  std::string shape;
  for (const ProfilerLine& line : lines) {
    if (!shape.empty()) shape += ' ';
    if (line.what == "start") {
      kinds[line.number("id")] = line.number("kind");
      shape += "+" + kind_name(line.number("kind"));
      if (const long parent = line.number("parent"); parent != 0)
        shape += "<" + kind_name(kinds[parent]);
    } else if (line.what == "state") {
      shape += "!" + line.of("state");
    } else if (line.what == "stop") {
      shape += "-" + kind_name(line.number("kind"));
    } else {
      shape += line.what == "wrong" ? line.text : line.what;
    }
  }
  return shape;
}

}  // namespace rondo::test
