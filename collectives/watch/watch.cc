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
constexpr std::chrono::seconds kSearchOften{5}, kSearchSeldom{2}, kMeetingEvery{1};
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
  start_service(about.hosts == 1);
  auto seat = guarded("the watch of a communicator", [&] { return take_seat(std::move(about)); });
  if (!seat.ok()) end_service();
  return seat;
}

void Watch::start_service(bool of_one_host) {
  std::lock_guard lock(service_mutex_);
  if (ranks_++ == 0) status_ = StatusSeat::watch(this);
  if (!of_one_host && !std::exchange(seeks_hosts_, true)) find_other_hosts();
}

void Watch::find_other_hosts() {
  auto book = HostBook::open();
  const auto interfaces = net::usable_interfaces();
  std::vector<net::SocketAddress> addresses;
  if (interfaces.ok())
    for (const net::Interface& each : *interfaces) addresses.push_back(each.address);
  const std::uint16_t port = addresses.empty() ? 0 : status_->port_for_ranks(addresses);
  for (net::SocketAddress& address : addresses) address = address.with_port(port);
  if (port == 0) addresses.clear();
  auto meeting = HostMeeting::open(addresses);
  if (book) book->answer_at(std::move(addresses));
  std::lock_guard book_lock(mutex_);
  book_ = std::move(book);
  meeting_ = std::move(meeting);
}

void Watch::end_service() {
  std::lock_guard lock(service_mutex_);
  if (--ranks_ > 0) return;
  status_.reset();
  seeks_hosts_ = false;
  std::lock_guard book_lock(mutex_);
  book_.reset();
  meeting_.reset();
}

Result<Seat*> Watch::take_seat(WatchedComm::About about) {
  std::lock_guard lock(mutex_);
  free_left();
  if (free_.empty() && taken_ == kSeats)
    return fail(StatusCode::kInvalidUsage,
                "{} communicators of this process are watched; this one is not", kSeats);
  about.has_record = records_ < kRecords;
  about.order = &order_;
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
  step_meeting();
  if (Clock::now() < next_search_) return;
  const auto began = Clock::now();
  update_book();
  find_peers();
  const auto ended = Clock::now();
  std::lock_guard lock(mutex_);
  const bool often = ended < newest_seat_ + kSearchOften && !lacking(false).empty();
  const bool has_known = std::any_of(comms_.begin(), comms_.end(),
                                     [](const auto& comm) { return comm.second->is_known(); });
  // The first process of the host, once all of them are known.
  serves_metrics_ =
      !often && has_known && std::all_of(peers_.begin(), peers_.end(), [](const auto& peer) {
        return peer.second.process.pid >= getpid();
      });
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

// The communicators of which not all ranks are known, of this host or of all.
std::set<std::uint64_t> Watch::lacking(bool with_other_hosts) const {
  std::map<std::uint64_t, std::set<int>> known;
  std::map<std::uint64_t, int> sizes;
  for (const auto& [place, comm] : comms_) {
    if (!comm->is_known() || (with_other_hosts && comm->is_of_one_host())) continue;
    known[comm->hash()].insert(comm->rank());
    sizes[comm->hash()] = comm->words().port.identity->size;
  }
  for (const auto& [inode, peer] : peers_)
    known[peer.hash].insert(peer.view.port(0).identity->rank);
  if (with_other_hosts)
    for (const WatchedProcess* const other : others())
      for (const auto& [hash, rank] : other->ranks) known[hash].insert(rank);
  std::set<std::uint64_t> lacking;
  for (const auto& [hash, size] : sizes)
    if (known[hash].size() < static_cast<std::size_t>(size)) lacking.insert(hash);
  return lacking;
}

// Of other hosts, as far as they are known; one rank each.
std::vector<const WatchedProcess*> Watch::others() const {
  std::vector<const WatchedProcess*> all;
  if (book_)
    for (const auto& [file, process] : book_->others()) all.push_back(&process);
  if (meeting_)
    for (const auto& [rank, process] : meeting_->others()) all.push_back(&process);
  return all;
}

// Without the lock while it resolves a name. What ranks there are is looked at once a second.
void Watch::step_meeting() {
  HostMeeting* const at = meeting();
  if (at == nullptr) return;
  std::set<RankName> ranks;
  std::set<std::uint64_t> incomplete;
  const bool is_due = Clock::now() >= next_meeting_;
  {
    std::lock_guard lock(mutex_);
    if (is_due) incomplete = lacking(true);
    for (const auto& [place, comm] : comms_)
      if (is_due && comm->is_known() && !comm->is_of_one_host())
        ranks.emplace(comm->hash(), comm->rank());
  }
  if (is_due) at->update(std::move(ranks), std::move(incomplete));
  if (is_due) next_meeting_ = Clock::now() + kMeetingEvery;
  at->step();
}

HostMeeting* Watch::meeting() {
  std::lock_guard lock(mutex_);
  return meeting_.get();
}

std::unique_ptr<auth::Acceptor> Watch::take_acceptor() {
  HostMeeting* const at = meeting();
  return at != nullptr ? at->take_acceptor() : nullptr;
}

std::string Watch::meet(std::string_view request) {
  HostMeeting* const at = meeting();
  return at != nullptr ? at->answer(request) : "ERROR: nobody meets here\n";
}

void Watch::update_book() {
  HostBook* book = nullptr;
  std::set<RankName> ranks;
  {
    std::lock_guard lock(mutex_);
    book = book_.get();
    for (const auto& [place, comm] : comms_)
      if (comm->is_known()) ranks.emplace(comm->hash(), comm->rank());
  }
  if (book != nullptr) book->update(std::move(ranks));
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
    if (lacking(false).empty()) return;
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
    const RankWordsView words{peer.view.port(0), &peer.view.activity(0), peer.view.messages()};
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
  for (const WatchedProcess* const other : others()) {
    PeerProcessAddress address;
    address.name = {other->pid, other->process};
    address.text = fmt::format("process {} on {}", other->pid, other->host_name);
    address.host = other->host;
    address.rank = {other->addresses, other->secret,
                    status::LineServer::endpoint_of(other->process)};
    peers->push_back(std::move(address));
  }
}

void Watch::add_silent(const std::set<std::uint64_t>& hosts, JobView* view) const {
  std::lock_guard lock(mutex_);
  for (const WatchedProcess* const other : others()) {
    if (!hosts.contains(other->host)) continue;
    for (const auto& [hash, rank] : other->ranks) {
      JobView one;
      CommunicatorView& communicator = one.communicators.emplace_back();
      communicator.hash = hash;
      communicator.ranks.push_back({.rank = rank,
                                    .pid = other->pid,
                                    .process = other->process,
                                    .host = other->host_name,
                                    .state = "silent"});
      view->merge(std::move(one));
    }
  }
}

std::vector<std::pair<auth::Tag, auth::Digest>> Watch::secrets() const {
  std::lock_guard lock(mutex_);
  std::vector<std::pair<auth::Tag, auth::Digest>> all;
  if (book_) all.emplace_back(auth::tag_of(book_->secret()), book_->secret());
  if (meeting_) all.emplace_back(auth::tag_of(meeting_->secret()), meeting_->secret());
  return all;
}

}  // namespace rondo::watch
