// The thread of SpanningKernels: slots to and from other hosts, news to and from rank 0.
#include <fmt/core.h>
#include <poll.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>

#include "base/atomics.h"
#include "base/log.h"
#include "collectives/gpu/kernel_watch.h"
#include "collectives/gpu/staging/spanning_kernels.h"
#include "collectives/watchdog/fault_texts.h"

namespace rondo::gpu {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kBusyTurns = 300;  // without traffic, before the thread sleeps
constexpr std::int64_t kTickNs = 500'000;
constexpr std::int64_t kBusySleepNs = 50'000;
constexpr std::int64_t kIdleSleepNs = 1'000'000;
constexpr std::int64_t kLingerNs = 5'000'000;  // after the last slot: the next call may be near
// In vain, until a neighbour whose connection ended is to blame: rank 0 may know better.
constexpr std::int64_t kLineNs = 1'500'000'000;
constexpr std::int64_t kFlushNs = 5'000'000'000;

std::int64_t now_ns() { return Clock::now().time_since_epoch().count(); }

}  // namespace

Done SpanningKernels::open_bell() {
  bell_ = Fd(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  return bell_ ? done() : fail_errno(errno, "cannot make an eventfd for connections between hosts");
}

void SpanningKernels::wake() {
  const std::uint64_t one = 1;
  (void)!::write(bell_.get(), &one, sizeof(one));
}

void SpanningKernels::serve() {
  int idle = 0;
  std::int64_t active = 0;  // when something last was to be done
  while (!stop_) {
    if (step()) {
      idle = 0;
      continue;
    }
    const std::int64_t now = now_ns();
    if (idle < kBusyTurns) {
      ++idle;
      active = now;
      sched_yield();
      continue;
    }
    if (is_in_launch(*connections_, terms_.rank)) active = now;
    if (sleep(now - active < kLingerNs)) idle = 0;
  }
  // What kernels have left here still goes out, unless all is over.
  for (const std::int64_t until = now_ns() + kFlushNs;
       !roll_call_->has_ended() && !relay_->flushed() && now_ns() < until;)
    if (!step()) sleep(true);
  roll_call_->leave(standing());
  relay_->close();
}

bool SpanningKernels::step() {
  const auto fail = [this](const Error& error) {
    (void)guarded("a fault", [&] {
      Fault found;
      found.status = error.status;
      found.rank = found.culprit = terms_.rank;
      found.text = error.text;
      terms_.raise(found);
      return end(found), done();
    }).ok();
  };
  const auto moved = guarded(
      "connections between hosts", [this] { return Result<bool>(try_step()); }, fail);
  return moved.ok() && *moved;
}

bool SpanningKernels::try_step() {
  bool moved = relay_->progress();
  if (!is_open_.load(std::memory_order_relaxed) && relay_->is_open())
    is_open_.store(true, std::memory_order_release);
  const std::int64_t now = now_ns();
  if (now - ticked_ns_ < kTickNs) return moved;
  ticked_ns_ = now;
  const Standing own = standing();
  moved |= roll_call_->tick(own, now);
  look_at_lines(own, now);
  return moved;
}

bool SpanningKernels::sleep(bool busy) {
  sleeps_.store(true, std::memory_order_seq_cst);
  pollfd entries[] = {
      {bell_.get(), POLLIN, 0}, {relay_->poll_fd(), POLLIN, 0}, {roll_call_->poll_fd(), POLLIN, 0}};
  const timespec at_most{0, busy ? kBusySleepNs : kIdleSleepNs};
  const bool rung = ::ppoll(entries, 3, &at_most, nullptr) > 0 && entries[0].revents != 0;
  sleeps_.store(false, std::memory_order_relaxed);
  std::uint64_t rings = 0;
  if (rung) (void)!::read(bell_.get(), &rings, sizeof(rings));
  return rung;
}

Standing SpanningKernels::standing() const {
  const cuda::Control& control = connections_->host_control(terms_.rank);
  Standing now = seen_;
  now.traffic = relay_->moved();
  if (const NewestLaunch newest = newest_launch_of(*connections_, terms_.rank);
      newest.number != 0) {
    now.begun = newest.number;
    now.launch = newest.call;
  }
  now.inside = is_in_launch(*connections_, terms_.rank) ? 1 : 0;
  now.gave_up = HostAtomics::load_acquire(control.gave_up);
  if (now.gave_up == 0) return now;
  now.launch = control.call;
  now.peer = control.peer;
  now.channel = control.channel;
  now.step = control.step;
  now.wants_room = control.wants_room;
  now.limit_millis = static_cast<std::uint32_t>(control.limit_ns / 1'000'000);
  return now;
}

// A neighbour that closed its connections has done its part, unless this rank then waits in vain.
void SpanningKernels::look_at_lines(const Standing& own, std::int64_t now) {
  if (!(own == seen_)) changed_ns_ = now;
  seen_ = own;
  int peer = -1;
  const Error* const ended = relay_->first_end(&peer);
  if (ended == nullptr || roll_call_->has_ended()) return;
  if (ended_ns_ == 0) ended_ns_ = now;
  if (own.inside == 0 && is_open_.load(std::memory_order_relaxed)) return;
  if (now - std::max(ended_ns_, changed_ns_) < kLineNs) return;
  Fault found;
  found.status = Status::kRemoteError;
  found.rank = terms_.rank;
  found.culprit = peer;
  found.own = own.launch;
  found.text = own.inside != 0 ? fault_texts::lost(terms_.name_of(peer), to_string(own.launch),
                                                   terms_.rank, ended->text)
                               : ended->text;
  terms_.raise(found);
  end(found);
}

}  // namespace rondo::gpu
