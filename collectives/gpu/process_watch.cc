#include "collectives/gpu/process_watch.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>

#include "base/atomics.h"
#include "base/guard.h"
#include "base/log.h"
#include "collectives/gpu/kernel_watch.h"
#include "collectives/watchdog/fault_texts.h"
#include "collectives/watchdog/peer_words.h"
#include "transport/cuda/device.h"

namespace rondo::gpu {
namespace {

using Clock = std::chrono::steady_clock;
using fault_texts::Parting;

constexpr int kTickMilliseconds = 20;
constexpr int kReleaseMilliseconds = 1;            // streams set flags anew until they have drained
constexpr std::int64_t kLongestGap = 250'000'000;  // ns counted a look: the rest it did not run
constexpr std::int64_t kDeadNs = 100'000'000;      // how long nothing moves before a death counts
constexpr double kWarnStalledSeconds = 60;

std::uint32_t word(const std::uint32_t& from) { return HostAtomics::load_acquire(from); }

}  // namespace

Done ProcessWatch::start() {
  wake_ = Fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake_) return fail_errno(errno, "eventfd");
  RONDO_TRY(thread_, Thread::start(
                         "the watch of a GPU", [this] { run(); }, [](const Error&) {}));
  return done();
}

void ProcessWatch::stop() {
  stop_ = true;
  look_soon();
  if (thread_.joinable()) thread_.join();
}

void ProcessWatch::forget() {
  if (thread_.joinable()) thread_.detach();
}

void ProcessWatch::look_soon() {
  const std::uint64_t one = 1;
  (void)!::write(wake_.get(), &one, sizeof(one));
}

void ProcessWatch::run() {
  const DeviceScope scope(context_.facts.device);
  const RelaxedCapture relaxed;
  auto before = Clock::now();
  while (!stop_) {
    const auto turn = [&] {
      serve_memory(context_.standing.is_released() ? kReleaseMilliseconds : kTickMilliseconds);
      const auto now = Clock::now();
      look(std::min<std::int64_t>((now - before).count(), kLongestGap));
      before = now;
      return done();
    };
    (void)guarded("the watch of a GPU", turn, [this](const Error& error) {
      context_.standing.release();
      (void)guarded("the watch of a GPU", [&] {
        return context_.standing.blame(error.status, context_.local[0], error.text), done();
      }).ok();
    }).ok();
  }
}

void ProcessWatch::serve_memory(int milliseconds) {
  std::vector<pollfd> entries{{wake_.get(), POLLIN, 0}};
  if (context_.leads())
    for (const net::Socket& socket : context_.memory->sockets())
      entries.push_back({socket.get(), POLLIN, 0});
  if (poll(entries.data(), entries.size(), milliseconds) <= 0) return;
  std::uint64_t count = 0;
  if (entries[0].revents != 0) (void)!read(wake_.get(), &count, sizeof(count));
  for (std::size_t i = 1; i < entries.size(); ++i)
    if (entries[i].revents != 0) context_.memory->serve(static_cast<int>(i) - 1);
}

void ProcessWatch::look(std::int64_t passed_ns) {
  if (!context_.standing.check().ok()) context_.standing.release();
  if (context_.standing.is_released()) return release_flags();
  if (!context_.leads()) context_.memory->map_new_areas();
  const std::uint64_t now = fingerprint();
  stalled_ns_ = now == seen_ ? stalled_ns_ + passed_ns : 0;
  if (now != seen_) warned_ = false;
  seen_ = now;
  const std::uint32_t wrong = word(context_.segment->words().mismatch);
  if (context_.leads() && wrong != 0) {
    const int rank = static_cast<int>(wrong) - 1;
    const std::uint32_t index =
        word(context_.segment->call_slot(rank).descriptor) % context_.segment->depth();
    return context_.standing.blame(
        Status::kInvalidUsage, rank,
        fault_texts::different_replay(
            rank, load_record(context_.segment->descriptor(rank, index).record)));
  }
  const Waiting found = waiting();
  if (found.in_call || found.message) return check_waiting(found);
  if (context_.connections != nullptr) look_at_kernels();
}

// Changes whenever anything that this process could wait for has moved.
std::uint64_t ProcessWatch::fingerprint() const {
  std::uint64_t mixed = HostAtomics::load_acquire(context_.segment->words().heartbeat);
  const auto mix = [&](std::uint32_t value) { mixed = (mixed ^ value) * 0x9e3779b97f4a7c15ULL; };
  for (int p = 0; p < context_.segment->processes(); ++p) {
    mix(word(context_.segment->process(p).ready));
    mix(word(context_.segment->process(p).done));
  }
  for (int rank : context_.local)
    for (int peer = 0; peer < context_.ranks(); ++peer)
      for (const Lane* lane :
           {&context_.segment->lane(rank, peer), &context_.segment->lane(peer, rank)}) {
        mix(word(lane->slot[0]) << 8 | word(lane->slot[1]));
        mix(word(lane->sending));
        mix(word(lane->receiving));
      }
  if (context_.connections != nullptr) mixed ^= kernels_moved(*context_.connections);
  return mixed;
}

ProcessWatch::Waiting ProcessWatch::waiting() const {
  Waiting found;
  const auto rank_of = [&](int process) {
    const auto& of = context_.facts.around.process_of;
    return static_cast<int>(std::find(of.begin(), of.end(), process) - of.begin());
  };
  const ProcessLines& mine = context_.segment->process(context_.facts.process);
  found.in_call = word(mine.ready) != 0 || (!context_.leads() && word(mine.done) != 0);
  if (found.in_call && (context_.leads() || word(context_.segment->process(0).ready) != 0)) {
    // The leader is there: whoever has given fewest steps keeps all others.
    std::uint32_t fewest = kReleased, most = 0;
    for (int p = 1; p < context_.segment->processes(); ++p) {
      fewest = std::min(fewest, word(context_.segment->process(p).ready));
      most = std::max(most, word(context_.segment->process(p).ready));
    }
    for (int p = 1; p < context_.segment->processes(); ++p)
      if (p != context_.facts.process && word(context_.segment->process(p).ready) == fewest &&
          (fewest == 0 || fewest < most))
        found.ranks.push_back(rank_of(p));
  }
  if (found.in_call && !context_.leads() && found.ranks.empty()) found.ranks.push_back(0);
  for (int rank : context_.local)
    for (int peer = 0; peer < context_.ranks(); ++peer) {
      const auto none = [](const Lane& lane, std::uint32_t state) {
        return word(lane.slot[0]) != state && word(lane.slot[1]) != state;
      };
      const Lane &out = context_.segment->lane(rank, peer),
                 &in = context_.segment->lane(peer, rank);
      if (context_.is_local(peer) || !((word(out.sending) != 0 && none(out, kEmpty)) ||
                                       (word(in.receiving) != 0 && none(in, kFull))))
        continue;
      found.message = true;
      found.ranks.push_back(peer);
    }
  std::sort(found.ranks.begin(), found.ranks.end());
  found.ranks.erase(std::unique(found.ranks.begin(), found.ranks.end()), found.ranks.end());
  return found;
}

void ProcessWatch::check_waiting(const Waiting& found) {
  const auto in_words = [this] { return call_in_words(); };
  const auto still = [this] { return waiting().ranks; };
  if (stalled_ns_ >= kDeadNs && blame_the_gone(found.ranks, context_.local[0], in_words, still))
    return;
  const std::string call = call_in_words();
  // Nobody is missing, and yet nothing moves: then anybody's end will do.
  if (found.ranks.empty() && stalled_ns_ > 10 * kDeadNs)
    for (int r = 0; r < context_.ranks(); ++r)
      if (context_.standing.has_ended(r))
        return blame_gone(r, Parting::kEnded, context_.local[0], call);
  const std::string names = fault_texts::list_of(found.ranks);
  const double limit = context_.standing.device_seconds();
  if (limit > 0 && static_cast<double>(stalled_ns_) * 1e-9 >= limit)
    return context_.standing.blame(Status::kTimeout, found.ranks.empty() ? -1 : found.ranks.front(),
                                   fault_texts::timed_out(context_.local[0], limit, names, call));
  warn(names, call);
}

bool ProcessWatch::has_left(int rank) const {
  const int process = context_.facts.around.process_of[static_cast<std::size_t>(rank)];
  return word(context_.segment->process(process).mapped) == kLeftTeam;
}

void ProcessWatch::blame_gone(int rank, Parting parting, int waiting, const std::string& call) {
  const std::string name = context_.standing.name_of(rank);
  context_.standing.blame(Status::kRemoteError, rank,
                          fault_texts::gone_before(name, parting, call, waiting));
}

bool ProcessWatch::blame_the_gone(const std::vector<int>& ranks, int waiting,
                                  const std::function<std::string()>& call,
                                  const std::function<std::vector<int>()>& still_waited_for) {
  const auto is_gone = [this](int rank) {
    return has_left(rank) || context_.standing.has_ended(rank);
  };
  const auto gone = std::find_if(ranks.begin(), ranks.end(), is_gone);
  if (gone == ranks.end()) return false;
  const std::vector<int> still = still_waited_for();
  if (std::find(still.begin(), still.end(), *gone) == still.end()) return false;
  blame_gone(*gone, has_left(*gone) ? Parting::kLeft : Parting::kEnded, waiting, call());
  return true;
}

void ProcessWatch::warn(const std::string& whom, const std::string& call) {
  const double stalled = static_cast<double>(stalled_ns_) * 1e-9;
  if (stalled < kWarnStalledSeconds || warned_) return;
  warned_ = true;
  RONDO_WARN("rank {} has waited {:.0f} s for {} in {}; it goes on waiting", context_.local[0],
             stalled, whom, call);
}

std::string ProcessWatch::call_in_words() const {
  const std::uint64_t newest = announcements_.newest();
  const ProcessLines& mine = context_.segment->process(context_.facts.process);
  const bool in_call = word(mine.ready) != 0 || (!context_.leads() && word(mine.done) != 0);
  if (!in_call) return "a message";
  const std::uint32_t index =
      word(context_.segment->call_slot(context_.local[0]).descriptor) % context_.segment->depth();
  const cuda::CallDescriptor& at = context_.segment->descriptor(context_.local[0], index);
  const std::uint64_t sequence = HostAtomics::load_acquire(at.sequence);
  const std::string call = to_string(load_record(at.record));
  if (sequence == 0) return fmt::format("a replayed {} (after call {})", call, newest);
  return fmt::format("call {}, {}", sequence, call);
}

// Streams of this process go on, whatever they wait for; kernels do nothing any more.
void ProcessWatch::release_flags() {
  HostAtomics::store_release(context_.segment->words().aborted, std::uint32_t{1});
  if (context_.connections != nullptr) context_.connections->stop_kernels();
  if (context_.leads()) {
    for (int p = 1; p < context_.segment->processes(); ++p)
      HostAtomics::store_release(context_.segment->process(p).ready, kReleased);
  } else {
    HostAtomics::store_release(context_.segment->process(context_.facts.process).done, kReleased);
  }
  for (int rank : context_.local)
    for (int peer = 0; peer < context_.ranks(); ++peer) {
      if (context_.is_local(peer)) continue;
      for (Lane* lane : {&context_.segment->lane(rank, peer), &context_.segment->lane(peer, rank)})
        for (std::uint32_t& slot : lane->slot) HostAtomics::store_release(slot, kReleasedSlot);
    }
}

void ProcessWatch::look_at_kernels() {
  for (const int rank : context_.local)
    if (!context_.standing.is_released()) check_launch(rank);
}

void ProcessWatch::check_launch(int rank) {
  if (const auto found =
          kernel_fault(*context_.connections, rank, context_.standing.device_seconds()))
    return context_.standing.blame(Status::kTimeout, found->peer, found->text);
  const CallRecord call = newest_launch(*context_.connections, rank);
  if (const int other = rank_that_differs(*context_.connections, rank); other >= 0) {
    const CallRecord theirs = newest_launch(*context_.connections, other);
    return context_.standing.blame(Status::kInvalidUsage, other,
                                   theirs == call
                                       ? fault_texts::different_replays_before(call, rank, other)
                                       : fault_texts::different_replays(rank, call, other, theirs));
  }
  if (!is_in_launch(*context_.connections, rank)) return;
  const auto behind = [&] {
    std::vector<int> found = ranks_not_over(*context_.connections, rank);
    const bool is_named = is_newest_named(*context_.connections, rank) || stalled_ns_ >= kDeadNs;
    if (!is_named) found.clear();
    return found;
  };
  const auto newest = [&] { return to_string(newest_launch(*context_.connections, rank)); };
  if (blame_the_gone(behind(), rank, newest, behind)) return;
  const std::vector<int> missing = ranks_not_come(*context_.connections, rank);
  // Kernels keep their own deadlines, since only they know whether they move.
  warn(fault_texts::list_of(missing), to_string(call));
}

}  // namespace rondo::gpu
