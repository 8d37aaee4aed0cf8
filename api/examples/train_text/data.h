// SPDX-License-Identifier: Apache-2.0
// Text: the characters to learn, as numbers, and the samples of each step. Random numbers and
// hashes without state, the same on every machine.
//
// A sample depends on (seed, step, index) alone, so that a resumed run, and a run with another
// number of ranks, use the same samples.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace train {

// FNV-1a. A change of one byte always changes the result.
inline std::uint64_t hash_of(const void* bytes, std::size_t size,
                             std::uint64_t hash = 14695981039346656037u) {
  const auto* at = static_cast<const unsigned char*>(bytes);
  for (std::size_t i = 0; i < size; ++i) hash = (hash ^ at[i]) * 1099511628211u;
  return hash;
}

// Element `index` of the random sequence of `seed` (splitmix64).
inline std::uint64_t random_at(std::uint64_t seed, std::uint64_t index) {
  std::uint64_t z = seed + (index + 1) * 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

class Text {
 public:
  // Reads a file, or all files of a directory in sorted order (links are left out). `error` stays
  // empty if there is enough text for contexts of `context` characters.
  Text(const std::string& path, long context, std::string* error) : context_(context) {
    namespace fs = std::filesystem;
    std::vector<fs::path> files{path};
    std::error_code ignored;
    if (fs::is_directory(path, ignored)) {
      files.clear();
      for (const auto& entry : fs::directory_iterator(path, ignored))
        if (entry.is_regular_file(ignored) && !entry.is_symlink(ignored)) files.push_back(entry);
      std::sort(files.begin(), files.end());
    }
    std::string all;
    for (const fs::path& file : files) {
      std::ifstream in(file, std::ios::binary);
      if (!in) *error = "cannot read " + file.string();
      all.append(std::istreambuf_iterator<char>(in), {});
    }
    if (error->empty() && all.size() < static_cast<std::size_t>(context) + 2)
      *error = path + " has " + std::to_string(all.size()) + " characters; --context " +
               std::to_string(context) + " needs more";
    std::array<int, 256> id_of;
    id_of.fill(-1);
    for (const unsigned char c : all) id_of[c] = 0;
    for (int& id : id_of)
      if (id == 0) id = vocabulary_++;
    ids_.reserve(all.size());
    for (const unsigned char c : all) ids_.push_back(static_cast<std::uint8_t>(id_of[c]));
    hash_ = hash_of(all.data(), all.size());
  }

  int vocabulary() const { return vocabulary_; }
  std::size_t size() const { return ids_.size(); }
  std::uint64_t hash() const { return hash_; }

  // The sample's context; the character to predict comes after it.
  const std::uint8_t* sample(std::uint64_t seed, long step, long index) const {
    const std::uint64_t of_step = random_at(seed ^ 0x7465787421u, static_cast<std::uint64_t>(step));
    const std::uint64_t drawn = random_at(of_step, static_cast<std::uint64_t>(index));
    return ids_.data() + drawn % (ids_.size() - static_cast<std::size_t>(context_));
  }

 private:
  long context_;
  int vocabulary_ = 0;
  std::vector<std::uint8_t> ids_;
  std::uint64_t hash_ = 0;
};

}  // namespace train
