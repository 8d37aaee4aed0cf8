// Text: the characters to learn, numbered, and the samples that a step takes from them.
//
// Samples are a function of (seed, step, index) alone, so that a resumed run and a run on another
// number of ranks see the same ones.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace train {

class Text {
 public:
  // Reads a file, or all files of a directory in sorted order (what several links name, once).
  // An empty `error` means success.
  static Text load(const std::string& path, int context, std::string* error);

  int vocabulary() const { return static_cast<int>(characters_.size()); }
  std::size_t size() const { return ids_.size(); }
  std::uint64_t hash() const { return hash_; }
  char character(int id) const { return characters_[static_cast<std::size_t>(id)]; }

  // The sample's context; the character to predict follows it.
  const std::uint8_t* sample(std::uint64_t seed, std::int64_t step, int index) const;

 private:
  std::vector<std::uint8_t> ids_;
  std::string characters_;
  std::uint64_t hash_ = 0;
  std::size_t context_ = 0;
};

}  // namespace train
