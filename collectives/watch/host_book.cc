// SPDX-License-Identifier: Apache-2.0
#include "collectives/watch/host_book.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "base/env.h"
#include "base/json.h"
#include "base/log.h"
#include "base/printable.h"
#include "base/process.h"
#include "base/text_file.h"
#include "topology/host_topology.h"

namespace rondo::watch {
namespace {

constexpr std::size_t kMaxBytes = 8192;  // of a file
constexpr const char* kSuffix = ".watch";

std::string prefix_of(std::uint64_t hash) { return fmt::format("{:016x}-", hash); }
std::string name_of(std::uint64_t hash, int rank) {
  return fmt::format("{}{}{}", prefix_of(hash), rank, kSuffix);
}

std::string hex_of(const auth::Digest& digest) {
  std::string text;
  for (const std::byte byte : digest) text += fmt::format("{:02x}", static_cast<unsigned>(byte));
  return text;
}

auth::Digest digest_of(const std::string& text) {
  auth::Digest digest{};
  if (text.size() != 2 * digest.size() ||
      text.find_first_not_of("0123456789abcdef") != std::string::npos)
    throw JsonError("'secret' is none");
  for (std::size_t i = 0; i < digest.size(); ++i)
    digest[i] = static_cast<std::byte>(std::stoi(text.substr(2 * i, 2), nullptr, 16));
  return digest;
}

std::uint64_t number_of(const std::string& text) {
  if (text.empty() || text.size() > 16 ||
      text.find_first_not_of("0123456789abcdef") != std::string::npos)
    throw JsonError("a number is none");
  return std::stoull(text, nullptr, 16);
}

int small_number(const Json& from, std::string_view key, double high) {
  const double value = from.at(key).number();
  if (!(value >= 0 && value <= high)) throw JsonError(fmt::format("'{}' is out of range", key));
  return static_cast<int>(value);
}

}  // namespace

std::string text_of(const HostBook::Entry& entry) {
  std::vector<std::string> addresses;
  for (const net::SocketAddress& address : entry.addresses) addresses.push_back(address.text());
  return Json{{"communicator", fmt::format("{:x}", entry.hash)},
              {"rank", entry.rank},
              {"pid", entry.pid},
              {"process", fmt::format("{:x}", entry.process)},
              {"host", fmt::format("{:x}", entry.host)},
              {"host_name", entry.host_name},
              {"addresses", addresses},
              {"secret", hex_of(entry.secret)}}
      .text(0);
}

Result<HostBook::Entry> parse_entry(const std::string& text) {
  constexpr double kMaxRank = 1 << 20, kMaxPid = 1 << 30;
  constexpr std::size_t kMaxAddresses = 16;
  try {
    const Json from = Json::parse(text);
    HostBook::Entry entry;
    entry.hash = number_of(from.at("communicator").string());
    entry.rank = small_number(from, "rank", kMaxRank);
    entry.pid = small_number(from, "pid", kMaxPid);
    entry.process = number_of(from.at("process").string());
    entry.host = number_of(from.at("host").string());
    entry.host_name = printable(from.at("host_name").string());
    entry.secret = digest_of(from.at("secret").string());
    for (const Json& address : from.at("addresses").elements()) {
      RONDO_TRY(const net::HostPort place, net::parse_host_port(address.string()));
      in6_addr ip6{};
      in_addr ip4{};
      const bool is_number = inet_pton(AF_INET, place.host.c_str(), &ip4) == 1 ||
                             inet_pton(AF_INET6, place.host.c_str(), &ip6) == 1;
      if (!is_number) continue;  // no question to a name server
      RONDO_TRY(const auto resolved, net::resolve(place, AF_UNSPEC));
      if (!resolved.empty() && entry.addresses.size() < kMaxAddresses)
        entry.addresses.push_back(resolved.front());
    }
    return entry;
  } catch (const std::exception& error) {
    return fail(StatusCode::kInvalidArgument, "{}", error.what());
  }
}

std::unique_ptr<HostBook> HostBook::open() {
  const std::string folder = env::get_string("RONDO_WATCH_DIR");
  return folder.empty() ? nullptr : std::unique_ptr<HostBook>(new HostBook(folder));
}

HostBook::~HostBook() {
  for (const std::string& name : written_) unlink((folder_ + '/' + name).c_str());
}

Status HostBook::write(const std::string& name, std::uint64_t hash, int rank) const {
  const Entry own{hash,     this_process()[0], topology::host_id(), rank,
                  getpid(), own_host_name(),   addresses_,          secret_};
  if (mkdir(folder_.c_str(), 0700) != 0 && errno != EEXIST)
    return fail_errno(errno, "cannot make the folder");
  const std::string path = folder_ + '/' + name;
  const std::string early = fmt::format("{}.{}", path, getpid());
  unlink(early.c_str());
  {
    RONDO_TRY(const Fd file, open_output(early, OutputMode::kReplace, 0600));
    const std::string text = text_of(own);
    const ssize_t written = ::write(file.get(), text.data(), text.size());
    if (written != static_cast<ssize_t>(text.size())) {
      const int error = written < 0 ? errno : ENOSPC;
      unlink(early.c_str());
      return fail_errno(error, "cannot write {}", early);
    }
  }
  if (rename(early.c_str(), path.c_str()) != 0) return fail_errno(errno, "cannot make {}", path);
  return ok_status();
}

void HostBook::read(const std::string& name) {
  const std::string path = folder_ + '/' + name;
  struct stat info {};
  constexpr mode_t kOthers = 077;
  if (lstat(path.c_str(), &info) != 0 || info.st_uid != geteuid() || (info.st_mode & kOthers) != 0)
    return;
  const auto text = read_text_file("place of a watched rank", path, kMaxBytes);
  if (!text.ok()) return;
  auto entry = parse_entry(*text);
  if (entry.ok() && entry->process != this_process()[0]) entries_[name] = std::move(*entry);
}

void HostBook::update(const std::set<std::pair<std::uint64_t, int>>& ranks) {
  std::set<std::string> own, prefixes;
  for (const auto& [hash, rank] : ranks) {
    const std::string name = name_of(hash, rank);
    own.insert(name);
    prefixes.insert(prefix_of(hash));
    if (addresses_.empty() || written_.contains(name) || has_failed_) continue;
    const Status done = write(name, hash, rank);
    if (done.ok()) written_.insert(name);
    if (done.ok()) continue;
    has_failed_ = true;
    notice(
        fmt::format("RONDO_WATCH_DIR={}: {}; the job goes on, other hosts do not find this "
                    "process",
                    printable(folder_), done.error().text));
  }
  std::erase_if(written_, [&](const std::string& name) {
    return !own.contains(name) && unlink((folder_ + '/' + name).c_str()) == 0;
  });
  const auto is_ours = [&](const std::string& name) {
    return name.size() > 17 && prefixes.contains(name.substr(0, 17));
  };
  std::erase_if(entries_, [&](const auto& entry) { return !is_ours(entry.first); });
  const std::unique_ptr<DIR, int (*)(DIR*)> directory(opendir(folder_.c_str()), closedir);
  while (const dirent* entry = directory ? readdir(directory.get()) : nullptr) {
    const std::string name = entry->d_name;
    if (is_ours(name) && name.ends_with(kSuffix) && !own.contains(name) && !entries_.contains(name))
      read(name);
  }
}

}  // namespace rondo::watch
