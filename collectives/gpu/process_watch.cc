// The watch thread of a ProcessTeam: who waits for whom, who died, deadlines, abort; on the leader
// also the memory desk. It makes no CUDA call but the desk's.
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>

#include "base/atomics.h"
#include "base/log.h"
#include "collectives/gpu/kernel_watch.h"
#include "collectives/gpu/process_team.h"
#include "collectives/watchdog/fault_texts.h"
#include "collectives/watchdog/peer_words.h"
#include "transport/cuda/device.h"

namespace rondo::gpu {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kTickMilliseconds = 20;
constexpr int kReleaseMilliseconds = 1;            // streams set flags anew until they have drained
constexpr std::int64_t kLongestGap = 250'000'000;  // ns counted a look: the rest it did not run
constexpr std::int64_t kDeadNs = 100'000'000;      // how long nothing moves before a death counts
constexpr double kWarnSeconds = 60;

std::uint32_t word(const std::uint32_t& from) { return HostAtomics::load_acquire(from); }

}  // namespace

void ProcessTeam::join(ProcessHooks* hooks) {
  std::lock_guard lock(hooks_mutex_);
  hooks_.push_back(hooks);
}

void ProcessTeam::leave(ProcessHooks* hooks) {
  std::lock_guard lock(hooks_mutex_);
  if (!hooks->standing().ok()) released_ = true;
  std::erase(hooks_, hooks);
}

void ProcessTeam::look_soon() {
  const std::uint64_t one = 1;
  (void)!::write(wake_.get(), &one, sizeof(one));
}

Done ProcessTeam::standing() {
  std::lock_guard lock(hooks_mutex_);
  for (ProcessHooks* hooks : hooks_) RONDO_CHECK_OK(hooks->standing());
  return done();
}

void ProcessTeam::watch() {
  const DeviceScope scope(seats_.device);
  const RelaxedCapture relaxed;
  auto before = Clock::now();
  while (!stop_) {
    const auto turn = [&] {
      serve_desk(released_ ? kReleaseMilliseconds : kTickMilliseconds);
      const auto now = Clock::now();
      look(std::min<std::int64_t>((now - before).count(), kLongestGap));
      before = now;
      return done();
    };
    (void)guarded("the watch of a GPU", turn, [this](const Error& error) {
      released_ = true;
      (void)guarded("the watch of a GPU", [&] {
        return blame(error.status, local_[0], error.text), done();
      }).ok();
    }).ok();
  }
}

void ProcessTeam::serve_desk(int milliseconds) {
  std::vector<pollfd> entries{{wake_.get(), POLLIN, 0}};
  if (leads())
    for (const net::Socket& socket : desk_->sockets()) entries.push_back({socket.get(), POLLIN, 0});
  if (poll(entries.data(), entries.size(), milliseconds) <= 0) return;
  std::uint64_t count = 0;
  if (entries[0].revents != 0) (void)!read(wake_.get(), &count, sizeof(count));
  for (std::size_t i = 1; i < entries.size(); ++i)
    if (entries[i].revents != 0) desk_->serve(static_cast<int>(i) - 1);
}

void ProcessTeam::look(std::int64_t passed_ns) {
  if (!standing().ok()) released_ = true;
  if (released_) return release_flags();
  if (!leads()) desk_->map_new_areas();
  const std::uint64_t now = fingerprint();
  stalled_ns_ = now == seen_ ? stalled_ns_ + passed_ns : 0;
  if (now != seen_) warned_ = false;
  seen_ = now;
  const std::uint32_t wrong = word(board_->words().mismatch);
  if (leads() && wrong != 0) {
    const int rank = static_cast<int>(wrong) - 1;
    const std::uint32_t index = word(board_->mailbox(rank).descriptor) % board_->depth();
    return blame(
        Status::kInvalidUsage, rank,
        fault_texts::different_replay(rank, load_record(board_->descriptor(rank, index).record)));
  }
  const Waiting found = waiting();
  if (found.in_call || found.message) return check_waiting(found);
  if (connections_ != nullptr) look_at_kernels();
}

// Changes whenever anything that this process could wait for has moved.
std::uint64_t ProcessTeam::fingerprint() const {
  std::uint64_t mixed = HostAtomics::load_acquire(board_->words().heartbeat);
  const auto mix = [&](std::uint32_t value) { mixed = (mixed ^ value) * 0x9e3779b97f4a7c15ULL; };
  for (int p = 0; p < board_->parties(); ++p) {
    mix(word(board_->party(p).ready));
    mix(word(board_->party(p).done));
  }
  for (int rank : local_)
    for (int peer = 0; peer < ranks(); ++peer)
      for (const Lane* lane : {&board_->lane(rank, peer), &board_->lane(peer, rank)}) {
        mix(word(lane->slot[0]) << 8 | word(lane->slot[1]));
        mix(word(lane->sending));
        mix(word(lane->receiving));
      }
  if (connections_ != nullptr) mixed ^= kernels_moved(*connections_);
  return mixed;
}

ProcessTeam::Waiting ProcessTeam::waiting() const {
  Waiting found;
  const auto rank_of = [&](int party) {
    const auto& of = seats_.around.party_of;
    return static_cast<int>(std::find(of.begin(), of.end(), party) - of.begin());
  };
  const PartyLines& mine = board_->party(seats_.party);
  found.in_call = word(mine.ready) != 0 || (!leads() && word(mine.done) != 0);
  if (found.in_call && (leads() || word(board_->party(0).ready) != 0)) {
    // The leader is there: whoever has given fewest steps keeps all others.
    std::uint32_t fewest = kReleased, most = 0;
    for (int p = 1; p < board_->parties(); ++p) {
      fewest = std::min(fewest, word(board_->party(p).ready));
      most = std::max(most, word(board_->party(p).ready));
    }
    for (int p = 1; p < board_->parties(); ++p)
      if (p != seats_.party && word(board_->party(p).ready) == fewest &&
          (fewest == 0 || fewest < most))
        found.ranks.push_back(rank_of(p));
  }
  if (found.in_call && !leads() && found.ranks.empty()) found.ranks.push_back(0);
  for (int rank : local_)
    for (int peer = 0; peer < ranks(); ++peer) {
      const auto none = [](const Lane& lane, std::uint32_t state) {
        return word(lane.slot[0]) != state && word(lane.slot[1]) != state;
      };
      const Lane &out = board_->lane(rank, peer), &in = board_->lane(peer, rank);
      if (is_local(peer) || !((word(out.sending) != 0 && none(out, kEmpty)) ||
                              (word(in.receiving) != 0 && none(in, kFull))))
        continue;
      found.message = true;
      found.ranks.push_back(peer);
    }
  std::sort(found.ranks.begin(), found.ranks.end());
  found.ranks.erase(std::unique(found.ranks.begin(), found.ranks.end()), found.ranks.end());
  return found;
}

void ProcessTeam::check_waiting(const Waiting& found) {
  std::vector<int> suspects = found.ranks;
  // Nobody is missing, and yet nothing moves: then anybody's end will do.
  if (suspects.empty() && stalled_ns_ > 10 * kDeadNs)
    for (int r = 0; r < ranks(); ++r) suspects.push_back(r);
  if (stalled_ns_ >= kDeadNs && blame_the_dead(suspects, local_[0], call_in_words())) return;
  const std::string names = fault_texts::list_of(found.ranks);
  const double limit = device_seconds();
  if (limit > 0 && static_cast<double>(stalled_ns_) * 1e-9 >= limit)
    return blame(Status::kTimeout, found.ranks.empty() ? -1 : found.ranks.front(),
                 fault_texts::timed_out(local_[0], limit, names, call_in_words()));
  warn(names, call_in_words());
}

// Whether one of the suspects has ended: then that is the fault.
bool ProcessTeam::blame_the_dead(std::span<const int> suspects, int waiting_rank,
                                 const std::string& call) {
  std::lock_guard lock(hooks_mutex_);
  if (hooks_.empty()) return false;
  ProcessHooks* const hooks = hooks_[0];
  for (int rank : suspects) {
    if (is_local(rank) || !hooks->has_ended(rank)) continue;
    Fault fault;
    fault.status = Status::kRemoteError;
    fault.culprit = rank;
    fault.text = fault_texts::gone_before(hooks->name_of(rank), fault_texts::Parting::kEnded, call,
                                          waiting_rank);
    hooks->raise(std::move(fault));
    released_ = true;
    return true;
  }
  return false;
}

double ProcessTeam::device_seconds() {
  std::lock_guard lock(hooks_mutex_);
  return hooks_.empty() ? 0 : hooks_[0]->device_seconds();
}

void ProcessTeam::warn(const std::string& whom, const std::string& call) {
  const double stalled = static_cast<double>(stalled_ns_) * 1e-9;
  if (stalled < kWarnSeconds || warned_) return;
  warned_ = true;
  RONDO_WARN("rank {} has waited {:.0f} s for {} in {}; it goes on waiting", local_[0], stalled,
             whom, call);
}

void ProcessTeam::blame(Status status, int culprit, const std::string& text) {
  std::lock_guard lock(hooks_mutex_);
  released_ = true;
  if (hooks_.empty()) return;
  Fault fault;
  fault.status = status;
  fault.culprit = culprit;
  fault.text = text;
  hooks_[0]->raise(std::move(fault));
}

std::string ProcessTeam::call_in_words() const {
  const std::uint64_t newest = sequence_.load(std::memory_order_acquire);
  const PartyLines& mine = board_->party(seats_.party);
  const bool in_call = word(mine.ready) != 0 || (!leads() && word(mine.done) != 0);
  if (!in_call) return "a message";
  const std::uint32_t index = word(board_->mailbox(local_[0]).descriptor) % board_->depth();
  const cuda::CallDescriptor& at = board_->descriptor(local_[0], index);
  const std::uint64_t sequence = HostAtomics::load_acquire(at.sequence);
  const std::string call = to_string(load_record(at.record));
  if (sequence == 0) return fmt::format("a replayed {} (after call {})", call, newest);
  return fmt::format("call {}, {}", sequence, call);
}

// Streams of this process go on, whatever they wait for; kernels do nothing any more.
void ProcessTeam::release_flags() {
  HostAtomics::store_release(board_->words().aborted, std::uint32_t{1});
  if (connections_ != nullptr) connections_->stop_kernels();
  if (leads()) {
    for (int p = 1; p < board_->parties(); ++p)
      HostAtomics::store_release(board_->party(p).ready, kReleased);
  } else {
    HostAtomics::store_release(board_->party(seats_.party).done, kReleased);
  }
  for (int rank : local_)
    for (int peer = 0; peer < ranks(); ++peer) {
      if (is_local(peer)) continue;
      for (Lane* lane : {&board_->lane(rank, peer), &board_->lane(peer, rank)})
        for (std::uint32_t& slot : lane->slot) HostAtomics::store_release(slot, kReleasedSlot);
    }
}

}  // namespace rondo::gpu
