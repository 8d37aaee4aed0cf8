// SPDX-License-Identifier: Apache-2.0
#include "checkpoint.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "hash.h"

namespace train {
namespace {

constexpr char kMagic[8] = {'R', 'N', 'D', 'T', 'R', 'A', 'I', 'N'};
constexpr std::uint32_t kVersion = 1;

struct Header {
  char magic[8];
  std::uint32_t version;
  std::uint32_t header_bytes;
  std::uint64_t state_bytes;
  std::uint64_t state_hash;
  std::int64_t step;
  RunFacts facts;
  std::uint64_t header_hash;  // of all fields before it
};
static_assert(sizeof(Header) == 8 + 4 + 4 + 8 + 8 + 8 + sizeof(RunFacts) + 8, "no padding");

std::uint64_t hash_of(const Header& header) {
  return fnv1a(&header, offsetof(Header, header_hash));
}

std::string system_error(const char* what, const std::string& path) {
  return std::string("cannot ") + what + " " + path + ": " + std::strerror(errno);
}

class File {
 public:
  File(const std::string& path, int flags) : fd_(open(path.c_str(), flags | O_CLOEXEC, 0644)) {}
  ~File() {
    if (fd_ >= 0) close(fd_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  bool ok() const { return fd_ >= 0; }
  int fd() const { return fd_; }

  bool write_all(const void* bytes, std::size_t size) {
    const auto* at = static_cast<const char*>(bytes);
    while (size > 0) {
      const ssize_t wrote = write(fd_, at, size);
      if (wrote < 0 && errno == EINTR) continue;
      if (wrote < 0) return false;
      at += wrote, size -= static_cast<std::size_t>(wrote);
    }
    return true;
  }

  // false: the file has fewer bytes.
  bool read_all(void* bytes, std::size_t size) {
    auto* at = static_cast<char*>(bytes);
    while (size > 0) {
      const ssize_t got = read(fd_, at, size);
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) return false;
      at += got, size -= static_cast<std::size_t>(got);
    }
    return true;
  }

 private:
  int fd_;
};

bool flush_directory_of(const std::string& path) {
  const std::filesystem::path parent = std::filesystem::absolute(path).parent_path();
  File directory(parent.string(), O_RDONLY | O_DIRECTORY);
  return directory.ok() && fsync(directory.fd()) == 0;
}

// Describes the first fact that differs; "": all are equal.
std::string difference(const RunFacts& saved, const RunFacts& now) {
  const auto number = [](auto value) {
    char text[64];
    std::snprintf(text, sizeof text, "%.15g", static_cast<double>(value));
    return std::string(text);
  };
  const auto compare = [&](const char* option, auto was, auto is) {
    return was == is ? std::string()
                     : "was written with " + std::string(option) + " " + number(was) + ", not " +
                           number(is);
  };
  for (const std::string& text :
       {compare("--batch", saved.batch, now.batch), compare("--shards", saved.shards, now.shards),
        compare("--context", saved.context, now.context),
        compare("--embedding", saved.embedding, now.embedding),
        compare("--hidden", saved.hidden, now.hidden), compare("--seed", saved.seed, now.seed),
        compare("--learning-rate", saved.learning_rate, now.learning_rate)})
    if (!text.empty()) return text;
  if (saved.text_hash != now.text_hash || saved.vocabulary != now.vocabulary)
    return "was written for another --text";
  return {};
}

}  // namespace

std::string save_checkpoint(const std::string& path, const RunFacts& facts, std::int64_t step,
                            const std::vector<float>& state) {
  Header header{};
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  header.version = kVersion;
  header.header_bytes = sizeof header;
  header.state_bytes = state.size() * sizeof(float);
  header.state_hash = fnv1a(state.data(), header.state_bytes);
  header.step = step;
  header.facts = facts;
  header.header_hash = hash_of(header);
  const std::string beside = path + ".tmp";
  {
    File file(beside, O_WRONLY | O_CREAT | O_TRUNC);
    if (!file.ok()) return system_error("create", beside);
    if (!file.write_all(&header, sizeof header) ||
        !file.write_all(state.data(), header.state_bytes) || fsync(file.fd()) != 0)
      return system_error("write", beside);
  }
  if (rename(beside.c_str(), path.c_str()) != 0) return system_error("put in place", path);
  if (!flush_directory_of(path)) return system_error("flush the directory of", path);
  return {};
}

std::string load_checkpoint(const std::string& path, const RunFacts& facts, std::int64_t* step,
                            std::vector<float>* state) {
  const auto refuse = [&](const std::string& why) { return "checkpoint " + path + " " + why; };
  File file(path, O_RDONLY);
  if (!file.ok())
    return system_error("open checkpoint", path) +
           (errno == ENOENT ? "; leave out --resume to start anew" : "");
  Header header{};
  if (!file.read_all(&header, sizeof header))
    return refuse("is cut short: its header is incomplete");
  if (std::memcmp(header.magic, kMagic, sizeof kMagic) != 0)
    return refuse("is not a checkpoint of train_text: its first bytes differ");
  if (header.version != kVersion)
    return refuse("has version " + std::to_string(header.version) +
                  "; this program reads version " + std::to_string(kVersion));
  if (header.header_bytes != sizeof header || header.header_hash != hash_of(header))
    return refuse("is corrupt: the checksum of its header is wrong");
  if (const std::string differs = difference(header.facts, facts); !differs.empty())
    return refuse(differs);
  if (header.state_bytes != state->size() * sizeof(float) || header.step < 0)
    return refuse("is corrupt: it holds " + std::to_string(header.state_bytes) + " bytes, not " +
                  std::to_string(state->size() * sizeof(float)));
  std::vector<float> read(state->size());
  if (!file.read_all(read.data(), header.state_bytes))
    return refuse("is cut short: fewer than its " + std::to_string(header.state_bytes) +
                  " bytes are there");
  if (fnv1a(read.data(), header.state_bytes) != header.state_hash)
    return refuse("is corrupt: the checksum of its contents is wrong");
  *state = std::move(read);
  *step = header.step;
  return {};
}

}  // namespace train
