// SPDX-License-Identifier: Apache-2.0
#include "collectives/watch/watch.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

#include "base/guard.h"
#include "base/printable.h"
#include "base/process.h"
#include "base/seconds.h"
#include "base/text_file.h"
#include "collectives/faults/standstill.h"
#include "collectives/status/inspect.h"
#include "transport/shm/host_segment.h"
#include "transport/socket/interfaces.h"
#include "transport/status/line_server.h"

namespace rondo::watch {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kMaxPeers = 256;  // open files of other processes
constexpr std::chrono::seconds kSearchOften{5}, kSearchSeldom{2};
constexpr int kIdleShare = 20;  // the search takes a twentieth of the time at most

// So that the program keeps descriptors for itself.
std::size_t max_peers() {
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) != 0) return kMaxPeers;
  return std::min<std::size_t>(kMaxPeers, files.rlim_cur / 8);
}

std::uint64_t inode_of(const std::string& path) {
  struct stat info {};
  return stat(path.c_str(), &info) == 0 ? info.st_ino : 0;
}

RankView view_of(const RankWordsView& words, const status::SocketName& process,
                 const std::string& host) {
  const bool elsewhere = words.port.identity->pid_namespace != pid_namespace();
  const bool is_own = process.pid == getpid();
  RankView rank =
      rank_view(words, is_own || elsewhere ? RankReport::kRunning : condition_of(process.pid), 0);
  if (elsewhere && rank.state == "running") rank.state = "elsewhere";
  rank.process = process.process;
  rank.host = host;
  return rank;
}

void add(RankView rank, std::uint64_t hash, const IdentityLine& identity, JobView* view) {
  JobView one;
  CommunicatorView& communicator = one.communicators.emplace_back();
  communicator.hash = hash;
  communicator.size = identity.size;
  communicator.name = printable({identity.name, strnlen(identity.name, sizeof(identity.name))});
  communicator.ranks.push_back(std::move(rank));
  view->merge(std::move(one));
}

std::atomic<Watch*> current_watch{nullptr};
std::atomic<std::uint32_t> current_generation{0};

}  // namespace

// Never destroyed: events of other threads may still use it.
Watch& Watch::instance() {
  static std::mutex mutex;
  Watch* watch = current_watch.load(std::memory_order_acquire);
  if (watch != nullptr && current_generation.load() == fork_generation()) return *watch;
  std::lock_guard lock(mutex);
  watch = current_watch.load();
  if (watch == nullptr || current_generation.load() != fork_generation()) {
    current_watch = watch = new Watch;
    current_generation = fork_generation();
  }
  return *watch;
}

Watch* Watch::current() {
  Watch* const watch = current_watch.load(std::memory_order_acquire);
  return current_generation.load(std::memory_order_relaxed) == fork_generation() ? watch : nullptr;
}

Result<Seat*> Watch::take(WatchedComm::About about) {
  start_service();
  auto seat = guarded("the watch of a communicator", [&] { return take_seat(std::move(about)); });
  if (!seat.ok()) end_service();
  return seat;
}

void Watch::start_service() {
  std::lock_guard lock(service_mutex_);
  if (ranks_++ > 0) return;
  status_ = StatusSeat::watch(this);
  auto book = HostBook::open();
  const auto interfaces = book ? net::usable_interfaces() : std::vector<net::Interface>();
  std::vector<net::SocketAddress> addresses;
  if (interfaces.ok())
    for (const net::Interface& each : *interfaces) addresses.push_back(each.address);
  const std::uint16_t port = addresses.empty() ? 0 : status_->port_for_ranks(addresses);
  for (net::SocketAddress& address : addresses) address = address.with_port(port);
  if (book && port != 0) book->answer_at(std::move(addresses));
  std::lock_guard book_lock(mutex_);
  book_ = std::move(book);
}

void Watch::end_service() {
  std::lock_guard lock(service_mutex_);
  if (--ranks_ > 0) return;
  status_.reset();
  std::lock_guard book_lock(mutex_);
  book_.reset();
}

Result<Seat*> Watch::take_seat(WatchedComm::About about) {
  std::lock_guard lock(mutex_);
  free_left();
  if (free_.empty() && taken_ == kSeats)
    return fail(StatusCode::kInvalidUsage,
                "{} communicators of this process are watched; this one is not", kSeats);
  about.has_record = records_ < kRecords;
  RONDO_TRY(std::unique_ptr<WatchedComm> comm, WatchedComm::open(about));
  unsigned place = taken_;
  if (free_.empty()) {
    ++taken_;
  } else {
    place = free_.back();
    free_.pop_back();
  }
  Seat& seat = seats_[place];
  seat.place = place;
  ++seat.generation;
  seat.comm.store(comm.get(), std::memory_order_release);
  records_ += comm->has_record();
  comms_[place] = std::move(comm);
  newest_seat_ = Clock::now();
  next_search_ = {};
  return &seat;
}

void Watch::leave(Seat& seat) {
  {
    std::lock_guard lock(mutex_);
    const auto found = comms_.find(seat.place);
    if (found == comms_.end()) return;
    seat.comm.store(nullptr, std::memory_order_release);
    found->second->leave();
    left_.push_back({Clock::now(), seat.place, std::move(found->second)});
    comms_.erase(found);
  }
  end_service();
}

// ---- the thread of the status service ----

void Watch::look() {
  const std::int64_t now = now_ns();
  {
    std::lock_guard lock(mutex_);
    for (const auto& [place, comm] : comms_)
      if (comm->is_known()) comm->look(now);
    free_left();
  }
  if (Clock::now() < next_search_) return;
  const auto began = Clock::now();
  update_book();
  find_peers();
  const auto ended = Clock::now();
  std::lock_guard lock(mutex_);
  const bool often = ended < newest_seat_ + kSearchOften && !is_complete();
  next_search_ = ended + std::max<Clock::duration>(
                             kIdleShare * (ended - began),
                             often ? Clock::duration(kLookEvery) : Clock::duration(kSearchSeldom));
}

void Watch::free_left() {
  while (!left_.empty() && left_.front().at + kKeptFor < Clock::now()) {
    free_.push_back(left_.front().place);
    records_ -= left_.front().comm->has_record();
    left_.pop_front();
  }
}

// True if all ranks of all communicators are on this host, and known.
bool Watch::is_complete() const {
  std::map<std::uint64_t, int> missing;
  for (const auto& [place, comm] : comms_) {
    const auto [at, is_new] = missing.emplace(comm->hash(), 0);
    if (is_new) at->second = comm->words().port.identity->size;
    --at->second;
  }
  for (const auto& [inode, peer] : peers_)
    if (const auto at = missing.find(peer.hash); at != missing.end()) --at->second;
  return std::all_of(missing.begin(), missing.end(),
                     [](const auto& entry) { return entry.second <= 0; });
}

// Without the lock: a file server that does not answer holds up this thread only.
void Watch::update_book() {
  HostBook* book = nullptr;
  std::set<std::pair<std::uint64_t, int>> ranks;
  {
    std::lock_guard lock(mutex_);
    book = book_.get();
    for (const auto& [place, comm] : comms_)
      if (comm->is_known()) ranks.emplace(comm->hash(), comm->rank());
  }
  if (book != nullptr) book->update(ranks);
}

void Watch::find_peers() {
  const auto folder = status::UserFolder::open_own();
  if (!folder.ok()) return;
  std::map<std::uint64_t, bool> own;
  {
    std::lock_guard lock(mutex_);
    for (const auto& [place, comm] : comms_)
      if (comm->is_known()) own[comm->hash()] = true;
    std::erase_if(peers_, [&](const auto& entry) { return !own.contains(entry.second.hash); });
    if (is_complete()) return;
  }
  for (const status::SocketName& process : folder->sockets())
    if (process.pid != getpid()) open_files_of(process, own);
}

void Watch::open_files_of(const status::SocketName& process,
                          const std::map<std::uint64_t, bool>& own) {
  const auto paths = shm::segments_of(process.pid);
  if (!paths.ok()) return;
  for (const std::string& path : *paths) {
    const std::uint64_t inode = inode_of(path);
    if (peers_.contains(inode) || peers_.size() >= max_peers()) continue;
    auto view = shm::SegmentView::open(path);
    if (!view.ok() || view->ranks() != 1) continue;
    const PeerPort port = view->port(0);
    const std::uint64_t hash = HostAtomics::load_acquire(port.trace->origin.communicator);
    // The process also has the files of its peers open, this one's too.
    if (HostAtomics::load_acquire(port.identity->pid) != process.pid || !own.contains(hash))
      continue;
    Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!file) continue;
    std::lock_guard lock(mutex_);
    peers_.emplace(inode, Peer{process, hash, std::move(file), std::move(*view)});
  }
}

void Watch::add_to(JobView* view) const {
  const std::string host = own_host_name();
  std::lock_guard lock(mutex_);
  const status::SocketName self{getpid(), this_process()[0]};
  for (const auto& [place, comm] : comms_) {
    if (!comm->is_known()) continue;
    const RankWordsView words = comm->words();
    add(view_of(words, self, host), comm->hash(), *words.port.identity, view);
  }
  for (const auto& [inode, peer] : peers_) {
    const RankWordsView words{peer.view.port(0), &peer.view.activity(0)};
    add(view_of(words, peer.process, host), peer.hash, *words.port.identity, view);
  }
}

void Watch::add_peers(std::vector<PeerProcessAddress>* peers) const {
  std::lock_guard lock(mutex_);
  for (const auto& [inode, peer] : peers_) {
    PeerProcessAddress address;
    address.name = peer.process;
    address.text = fmt::format("process {}", peer.process.pid);
    address.same_host = true;
    peers->push_back(std::move(address));
  }
  if (!book_) return;
  for (const auto& [file, entry] : book_->entries()) {
    PeerProcessAddress address;
    address.name = {entry.pid, entry.process};
    address.text = fmt::format("process {} on {}", entry.pid, entry.host_name);
    address.host = entry.host;
    address.rank = {entry.addresses, entry.secret, status::LineServer::endpoint_of(entry.process)};
    peers->push_back(std::move(address));
  }
}

void Watch::add_silent(JobView* view) const {
  std::lock_guard lock(mutex_);
  if (!book_) return;
  for (const auto& [file, entry] : book_->entries()) {
    JobView one;
    CommunicatorView& communicator = one.communicators.emplace_back();
    communicator.hash = entry.hash;
    communicator.ranks.push_back({.rank = entry.rank,
                                  .pid = entry.pid,
                                  .process = entry.process,
                                  .host = entry.host_name,
                                  .state = "silent"});
    view->merge(std::move(one));
  }
}

std::vector<std::pair<auth::Tag, auth::Digest>> Watch::secrets() const {
  std::lock_guard lock(mutex_);
  if (!book_) return {};
  return {{auth::tag_of(book_->secret()), book_->secret()}};
}

}  // namespace rondo::watch
