// SPDX-License-Identifier: Apache-2.0
// Text: the characters to learn, as numbers, and the samples of each step.
//
// A sample depends only on (seed, step, index), so that a resumed run, and a run with another
// number of ranks, use the same samples.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace train {

class Text {
 public:
  // Reads a file, or all files of a directory in sorted order (a file with several links once).
  // Success leaves `error` empty.
  static Text load(const std::string& path, int context, std::string* error);

  int vocabulary() const { return static_cast<int>(characters_.size()); }
  std::size_t size() const { return ids_.size(); }
  std::uint64_t hash() const { return hash_; }
  char character(int id) const { return characters_[static_cast<std::size_t>(id)]; }

  // The sample's context. The character to predict is the next one after it.
  const std::uint8_t* sample(std::uint64_t seed, std::int64_t step, int index) const;

 private:
  std::vector<std::uint8_t> ids_;
  std::string characters_;
  std::uint64_t hash_ = 0;
  std::size_t context_ = 0;
};

}  // namespace train
