// SPDX-License-Identifier: Apache-2.0
#include "collectives/gpu/processes/process_watch.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>

#include "base/atomics.h"
#include "base/guard.h"
#include "base/log.h"
#include "base/seconds.h"
#include "collectives/faults/fault_texts.h"
#include "collectives/faults/peer_words.h"
#include "collectives/gpu/channels/kernel_watch.h"
#include "collectives/gpu/processes/call_announcements.h"
#include "collectives/gpu/processes/process_context.h"
#include "transport/cuda/device.h"

namespace rondo::gpu {
namespace {

constexpr int kTickMilliseconds = 20;
// Of a released team: streams set flags again until they have drained. While blocks of others are
// to be unmapped: their owners may wait.
constexpr int kShortMilliseconds = 1;
constexpr std::int64_t kQuietWithinHostNs =
    100'000'000;  // all words are in shared memory, read once per tick
// A kernel may see only after some time that the last words of a rank that left have arrived.
constexpr std::int64_t kOnTheWayWithinHostNs = 2'000'000'000;

std::uint32_t word(const std::uint32_t& from) { return HostAtomics::load_acquire(from); }

}  // namespace

ProcessWatch::ProcessWatch(ProcessContext& context, const CallAnnouncements& announcements)
    : context_(context),
      announcements_(announcements),
      detector_({context.local[0], context.ranks(),
                 [&standing = context.standing](int rank) { return standing.name_of(rank); },
                 kQuietWithinHostNs, 0, kOnTheWayWithinHostNs}) {}

Status ProcessWatch::start() {
  wake_ = Fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake_) return fail_errno(errno, "eventfd");
  RONDO_TRY(thread_, Thread::start(
                         "the watch of a GPU", [this] { run(); }, [](const Error&) {}));
  return ok_status();
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
  DeviceScope::keep_device_of_thread();
  const DeviceScope scope(context_.facts.device);
  const RelaxedCapture relaxed;
  while (!stop_) {
    const auto turn = [&] {
      const bool soon = context_.standing.is_released() || unmaps_;
      serve_memory(soon ? kShortMilliseconds : kTickMilliseconds);
      return look(), ok_status();
    };
    (void)guarded("the watch of a GPU", turn, [this](const Error& error) {
      context_.standing.release();
      (void)guarded("the watch of a GPU", [&] {
        return context_.standing.blame(error.code, context_.local[0], error.text), ok_status();
      }).ok();
    }).ok();
  }
}

void ProcessWatch::serve_memory(int milliseconds) {
  std::vector<pollfd> entries{{wake_.get(), POLLIN, 0}};
  for (int p = 0; p < context_.segment->processes(); ++p)
    entries.push_back({context_.exchange->fd(p), POLLIN, 0});
  if (poll(entries.data(), entries.size(), milliseconds) < 0) return;
  std::uint64_t count = 0;
  if (entries[0].revents != 0) (void)!read(wake_.get(), &count, sizeof(count));
  for (std::size_t i = 1; i < entries.size(); ++i) {
    const int process = static_cast<int>(i) - 1;
    if (entries[i].revents != 0 || context_.exchange->has_open_request(process))
      context_.answer(process);
  }
  unmaps_ = context_.blocks->unmap_ended();
}

void ProcessWatch::look() {
  if (!context_.standing.check().ok()) context_.standing.release();
  if (context_.standing.is_released()) return release_flags();
  if (const std::uint32_t wrong = word(context_.segment->words().mismatch);
      context_.leads() && wrong != 0) {
    const int rank = static_cast<int>(wrong) - 1;
    return context_.standing.blame(
        StatusCode::kInvalidUsage, rank,
        fault_texts::different_replay(rank, load_record(descriptor_of(rank).record)));
  }
  context_.recall->look();
  detector_.tick(now_ns());
  if (detector_.is_stalled()) report_who_is_gone();
  report_progress();
  show_wait();
  if (auto found = detector_.verdict()) return context_.standing.blame(std::move(*found));
  if (const auto warning = detector_.warning()) RONDO_WARN("{}", *warning);
}

void ProcessWatch::report_who_is_gone() {
  for (int rank = 0; rank < context_.ranks(); ++rank) {
    const int process = context_.facts.around.process_of[static_cast<std::size_t>(rank)];
    if (word(context_.segment->process(process).left) != 0) {
      detector_.report_leave(rank);
    } else if (context_.standing.has_ended(rank)) {
      detector_.report_end(rank);
    }
  }
}

void ProcessWatch::report_progress() {
  for (int rank = 0; rank < context_.ranks(); ++rank) {
    Progress now;
    if (const auto& of = context_.shared.connections) now = progress_of(*of, rank);
    if (rank == context_.local[0]) now.traffic = traffic();
    detector_.report(rank, now);
  }
  detector_.report_wait(context_.local[0], wait_on_streams());
}

void ProcessWatch::show_wait() {
  const int own = context_.local[0];
  const cuda::CallDescriptor& at = descriptor_of(own);
  std::uint64_t begun = HostAtomics::load_acquire(at.sequence);
  if (const auto& of = context_.shared.connections) begun += progress_of(*of, own).begun;
  std::optional<LongWait> wait = detector_.wait_of(own);
  if (wait && is_in_call()) wait->call = load_record(at.record);
  context_.standing.show(begun, wait);
}

// Changes whenever a flag changes that this process could wait for.
std::uint64_t ProcessWatch::traffic() const {
  std::uint64_t mixed = HostAtomics::load_acquire(context_.segment->words().heartbeat);
  const auto mix = [&](std::uint32_t value) { mixed = (mixed ^ value) * 0x9e3779b97f4a7c15ULL; };
  for (int p = 0; p < context_.segment->processes(); ++p) {
    mix(word(context_.segment->process(p).ready));
    mix(word(context_.segment->process(p).done));
  }
  for (int rank : context_.local)
    for (int peer = 0; peer < context_.ranks(); ++peer)
      for (const MessagePair* pair :
           {&context_.segment->pair(rank, peer), &context_.segment->pair(peer, rank)}) {
        mix(word(pair->slot[0]) << 8 | word(pair->slot[1]));
        mix(word(pair->sending));
        mix(word(pair->receiving));
      }
  for_each_wait([&](int, std::uint32_t slot) { mix(slot); });
  return mixed;
}

// each(peer, slot), for message kernels of this process.
template <class Each>
void ProcessWatch::for_each_wait(const Each& each) const {
  if (!context_.messages_are_kernels()) return;
  for (int rank : context_.local) for_each_message_wait(*context_.shared.connections, rank, each);
}

// The leader resets READY before it sets DONE. If it dies in between, no flag of this process shows
// that its stream waits, but the leader's own line shows that it never left the call.
bool ProcessWatch::is_cut_off() const {
  const ProcessLines& mine = context_.segment->process(context_.facts.process);
  return !context_.leads() && word(mine.ready) == 0 && word(mine.done) == 0 &&
         word(context_.segment->process(0).ready) != 0 && context_.standing.has_ended(0);
}

bool ProcessWatch::is_in_call() const {
  const ProcessLines& mine = context_.segment->process(context_.facts.process);
  return word(mine.ready) != 0 || (!context_.leads() && word(mine.done) != 0) || is_cut_off();
}

std::vector<int> ProcessWatch::awaited_in_call() const {
  if (is_cut_off()) return {0};
  // If the leader has arrived, the processes with the fewest steps delay all others.
  std::vector<int> found;
  if (context_.leads() || word(context_.segment->process(0).ready) != 0) {
    std::uint32_t minimum = kReleased, maximum = 0;
    for (int p = 1; p < context_.segment->processes(); ++p) {
      minimum = std::min(minimum, word(context_.segment->process(p).ready));
      maximum = std::max(maximum, word(context_.segment->process(p).ready));
    }
    const auto& of = context_.facts.around.process_of;
    for (int p = 1; p < context_.segment->processes(); ++p)
      if (p != context_.facts.process && word(context_.segment->process(p).ready) == minimum &&
          (minimum == 0 || minimum < maximum))
        found.push_back(static_cast<int>(std::find(of.begin(), of.end(), p) - of.begin()));
  }
  if (!context_.leads() && found.empty()) found.push_back(0);
  return found;
}

std::vector<int> ProcessWatch::awaited_in_messages() const {
  const auto none = [](const MessagePair& pair, std::uint32_t state) {
    return word(pair.slot[0]) != state && word(pair.slot[1]) != state;
  };
  std::vector<int> found;
  for_each_wait([&](int peer, std::uint32_t slot) {
    if (slot != 0) found.push_back(peer);
  });
  for (int rank : context_.local)
    for (int peer = 0; peer < context_.ranks(); ++peer) {
      const MessagePair &out = context_.segment->pair(rank, peer),
                        &in = context_.segment->pair(peer, rank);
      if (!context_.is_local(peer) && ((word(out.sending) != 0 && none(out, kEmpty)) ||
                                       (word(in.receiving) != 0 && none(in, kFull))))
        found.push_back(peer);
    }
  return found;
}

std::optional<Wait> ProcessWatch::wait_on_streams() const {
  std::vector<int> awaited = awaited_in_messages();
  const std::vector<int> in_calls = awaited_in_call();
  const bool in_call = is_in_call();  // read last: waits of a call that ends meanwhile do not count
  if (!in_call && awaited.empty()) return std::nullopt;
  if (in_call) awaited.insert(awaited.end(), in_calls.begin(), in_calls.end());
  std::sort(awaited.begin(), awaited.end());
  awaited.erase(std::unique(awaited.begin(), awaited.end()), awaited.end());
  return Wait{in_call ? call_in_words() : kMessageInWords, std::move(awaited),
              context_.standing.device_seconds()};
}

const cuda::CallDescriptor& ProcessWatch::descriptor_of(int rank) const {
  const ControlSegment& segment = *context_.segment;
  return segment.descriptor(rank, word(segment.call_slot(rank).descriptor) % segment.depth());
}

std::string ProcessWatch::call_in_words() const {
  const cuda::CallDescriptor& at = descriptor_of(context_.local[0]);
  const std::uint64_t sequence = HostAtomics::load_acquire(at.sequence);
  const std::string call = to_string(load_record(at.record));
  if (sequence == 0)
    return fmt::format("a replayed {} (after call {})", call, announcements_.newest());
  return fmt::format("call {}, {}", sequence, call);
}

// Streams of this process continue, whatever they wait for; kernels do nothing more.
void ProcessWatch::release_flags() {
  HostAtomics::store_release(context_.segment->words().aborted, std::uint32_t{1});
  if (const auto& of = context_.shared.connections) of->stop_kernels();
  if (context_.leads()) {
    for (int p = 1; p < context_.segment->processes(); ++p)
      HostAtomics::store_release(context_.segment->process(p).ready, kReleased);
  } else {
    HostAtomics::store_release(context_.segment->process(context_.facts.process).done, kReleased);
  }
  for (int rank : context_.local)
    for (int peer = 0; peer < context_.ranks(); ++peer) {
      if (context_.is_local(peer)) continue;
      for (MessagePair* pair :
           {&context_.segment->pair(rank, peer), &context_.segment->pair(peer, rank)})
        for (std::uint32_t& slot : pair->slot) HostAtomics::store_release(slot, kReleasedSlot);
    }
}

}  // namespace rondo::gpu
