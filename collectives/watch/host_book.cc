// SPDX-License-Identifier: Apache-2.0
#include "collectives/watch/host_book.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <optional>
#include <utility>

#include "base/env.h"
#include "base/json.h"
#include "base/log.h"
#include "base/printable.h"
#include "base/process.h"
#include "base/text_file.h"
#include "base/thread.h"

namespace rondo::watch {
namespace {

constexpr std::size_t kMaxBytes = 8192;  // of a file
constexpr const char* kSuffix = ".watch";

std::string prefix_of(std::uint64_t hash) { return fmt::format("{:016x}-", hash); }
std::string name_of(std::uint64_t hash, int rank) {
  return fmt::format("{}{}{}", prefix_of(hash), rank, kSuffix);
}

// The files, on the thread of the book.
class Files {
 public:
  using Others = std::map<std::string, WatchedProcess>;

  Files(std::string folder, const auth::Digest& secret)
      : folder_(std::move(folder)), secret_(secret) {}
  ~Files();
  void update(const std::set<RankName>& ranks, const std::vector<net::SocketAddress>& addresses);
  const Others& others() const { return others_; }

 private:
  Status write(const std::string& name, const RankName& rank,
               const std::vector<net::SocketAddress>& addresses) const;
  void read(const std::string& name);

  const std::string folder_;
  const auth::Digest secret_;
  std::set<std::string> written_;
  Others others_;
  bool has_failed_ = false;
};

Files::~Files() {
  for (const std::string& name : written_) unlink((folder_ + '/' + name).c_str());
}

Status Files::write(const std::string& name, const RankName& rank,
                    const std::vector<net::SocketAddress>& addresses) const {
  WatchedProcess own = WatchedProcess::own();
  own.addresses = addresses;
  own.secret = secret_;
  own.ranks = {rank};
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

void Files::read(const std::string& name) {
  const std::string path = folder_ + '/' + name;
  struct stat info {};
  constexpr mode_t kOthers = 077;
  if (lstat(path.c_str(), &info) != 0 || info.st_uid != geteuid() || (info.st_mode & kOthers) != 0)
    return;
  const auto text = read_text_file("place of a watched rank", path, kMaxBytes);
  if (!text.ok()) return;
  auto process = parse_file(*text);
  if (process.ok() && process->process != this_process()[0]) others_[name] = std::move(*process);
}

void Files::update(const std::set<RankName>& ranks,
                   const std::vector<net::SocketAddress>& addresses) {
  std::set<std::string> own, prefixes;
  for (const auto& [hash, rank] : ranks) {
    const std::string name = name_of(hash, rank);
    own.insert(name);
    prefixes.insert(prefix_of(hash));
    if (addresses.empty() || written_.contains(name) || has_failed_) continue;
    const Status done = write(name, {hash, rank}, addresses);
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
  std::erase_if(others_, [&](const auto& entry) { return !is_ours(entry.first); });
  const std::unique_ptr<DIR, int (*)(DIR*)> directory(opendir(folder_.c_str()), closedir);
  while (const dirent* entry = directory ? readdir(directory.get()) : nullptr) {
    const std::string name = entry->d_name;
    if (is_ours(name) && name.ends_with(kSuffix) && !own.contains(name) && !others_.contains(name))
      read(name);
  }
}

}  // namespace

std::string text_of(const WatchedProcess& process) { return process.to_json(true).text(0); }

Result<WatchedProcess> parse_file(const std::string& text) {
  try {
    RONDO_TRY(WatchedProcess process, WatchedProcess::parse(Json::parse(text), true));
    if (process.ranks.size() != 1)
      return fail(StatusCode::kInvalidArgument, "{} ranks", process.ranks.size());
    return process;
  } catch (const JsonError& error) {
    return fail(StatusCode::kInvalidArgument, "{}", error.what());
  }
}

// ---- between the threads ----

struct HostBook::Desk {
  std::mutex mutex;
  std::condition_variable changed;
  std::optional<std::set<RankName>> wanted;
  std::vector<net::SocketAddress> addresses;
  Files::Others others;
  bool is_over = false, has_ended = false;

  void serve(const std::string& folder, const auth::Digest& secret) {
    Files files(folder, secret);
    std::unique_lock lock(mutex);
    for (;;) {
      changed.wait(lock, [&] { return is_over || wanted; });  // the book ends it
      if (is_over) return;
      const std::set<RankName> ranks = *std::exchange(wanted, std::nullopt);
      const auto own = addresses;
      lock.unlock();
      files.update(ranks, own);
      lock.lock();
      others = files.others();
    }
  }
};

HostBook::HostBook(std::shared_ptr<Desk> desk, const auth::Digest& secret)
    : desk_(std::move(desk)), secret_(secret) {}

std::unique_ptr<HostBook> HostBook::open() {
  const std::string folder = env::get_string("RONDO_WATCH_DIR");
  if (folder.empty()) return nullptr;
  const auth::Digest secret = auth::random_digest();
  const auto desk = std::make_shared<Desk>();
  auto started = Thread::start(
      "RONDO_WATCH_DIR",
      [desk, folder, secret] {
        desk->serve(folder, secret);
        std::lock_guard lock(desk->mutex);
        desk->has_ended = true;
        desk->changed.notify_all();
      },
      [](const Error&) {});
  if (!started.ok()) return notice(started.error().text), nullptr;
  started->detach();
  return std::unique_ptr<HostBook>(new HostBook(desk, secret));
}

HostBook::~HostBook() {
  std::unique_lock lock(desk_->mutex);
  desk_->is_over = true;
  desk_->changed.notify_all();
  desk_->changed.wait_for(lock, kLongestEnd, [&] { return desk_->has_ended; });
}

void HostBook::answer_at(std::vector<net::SocketAddress> addresses) {
  std::lock_guard lock(desk_->mutex);
  desk_->addresses = std::move(addresses);
}

void HostBook::update(std::set<RankName> ranks) {
  std::lock_guard lock(desk_->mutex);
  desk_->wanted = std::move(ranks);
  desk_->changed.notify_all();
  others_ = desk_->others;
}

}  // namespace rondo::watch
