// SPDX-License-Identifier: Apache-2.0
#include "collectives/messages/tagged_messages.h"

#include <algorithm>
#include <cassert>
#include <cstring>

#include "base/doorbell.h"
#include "base/poll_until.h"
#include "collectives/communicator/communicator_state.h"
#include "collectives/faults/peer_words.h"

namespace rondo {
namespace {

constexpr std::chrono::seconds kLastFlush{10};
constexpr std::int64_t kLongestSleep = 100'000'000;  // ns

}  // namespace

TaggedMessages::TaggedMessages(std::shared_ptr<Communicator> own, std::size_t eager_bytes)
    : own_(std::move(own)),
      state_(*own_->state_),
      queues_(state_),
      traffic_(state_, queues_, eager_bytes) {}

Result<std::shared_ptr<TaggedMessages>> TaggedMessages::open(std::shared_ptr<Communicator> own,
                                                             std::size_t eager_bytes) {
  std::shared_ptr<TaggedMessages> made(new TaggedMessages(std::move(own), eager_bytes));
  const std::uint64_t limit = eager_bytes;
  RONDO_TRY(const auto limits,
            made->own_->exchange("tagged messages", std::as_bytes(std::span(&limit, 1))));
  RONDO_CHECK_OK(made->traffic_.open(limits));
  return made;
}

TaggedMessages::~TaggedMessages() {
  if (state_.forked()) {
    if (thread_.joinable()) thread_.detach();  // the thread exists only in the parent
    return;
  }
  (void)guarded("messages", [this] {
    flush(std::chrono::steady_clock::now() + kLastFlush);
    return ok_status();
  }).ok();
  closing_.store(true);
  if (thread_.joinable()) {
    ring<DoorbellAtomics>(*state_.host.self().bell);
    if (thread_.is_this_thread())
      thread_.detach();
    else
      thread_.join();
  }
  std::lock_guard lock(mutex_);
  (void)or_end([this] {
    queues_.fail_all(
        fail(StatusCode::kInvalidUsage, "the communicator of this message has been destroyed"));
    return ok_status();
  }).ok();
}

Status TaggedMessages::usable(const Envelope& envelope) const {
  if (state_.forked())
    return fail(StatusCode::kInvalidUsage,
                "this communicator belongs to the parent process: after fork, create a new one");
  if (queues_.aborted) return *queues_.aborted;
  if (envelope.peer < kAnySource || envelope.peer >= state_.members.size)
    return fail(StatusCode::kInvalidArgument, "peer {} is not in 0..{}", envelope.peer,
                state_.members.size - 1);
  return ok_status();
}

Result<TaggedMessages::Request> TaggedMessages::send(const Envelope& to, const void* data,
                                                     std::size_t bytes) {
  std::lock_guard lock(mutex_);
  return or_end([&] { return send_locked(to, data, bytes); });
}

Result<TaggedMessages::Request> TaggedMessages::send_locked(const Envelope& to, const void* data,
                                                            std::size_t bytes) {
  RONDO_CHECK_OK(usable(to));
  if (to.peer == kAnySource)
    return fail(StatusCode::kInvalidArgument, "a message is sent to one rank; name it");
  const Request request = new_request(Collective::kSend, to, bytes);
  MessageQueues::Sending sending;
  sending.to = to;
  sending.bytes = sending.left = bytes;
  sending.next = static_cast<const std::byte*>(data);
  sending.request = request;
  if (to.peer == state_.members.rank) {
    deliver_to_self(sending);
    return request;
  }
  if (const auto& ended = queues_.peers[to.peer].ended)
    return fail(StatusCode::kRemoteError, "{}; rank {} sends it {} bytes with tag {}", *ended,
                state_.members.rank, bytes, to.tag);
  RONDO_CHECK_OK(start_thread());
  RONDO_CHECK_OK(traffic_.send(std::move(sending)));
  return request;
}

TaggedMessages::Request TaggedMessages::new_request(Collective which, const Envelope& envelope,
                                                    std::size_t bytes) {
  const auto help = [self = weak_from_this()] {
    if (auto alive = self.lock()) alive->help();
  };
  host::CallRecorder& recorder = state_.host.recorder;
  if (!recorder.has_ring()) return std::make_shared<Completion>(help);
  CallRecord record;
  record.count = bytes / size_of(envelope.type);
  record.collective = which;
  record.type = envelope.type;
  record.root = envelope.peer;
  const auto ended = [&recorder, record, entered = ticks()](const Completion& request) {
    CallRecord done = record;
    if (request.source() >= 0) done.root = request.source();
    recorder.write_ended(done, entered, request.result().code());
  };
  return std::make_shared<Completion>(help, ended);
}

void TaggedMessages::deliver_to_self(const MessageQueues::Sending& sending) {
  assert(sending.to.peer == state_.members.rank && sending.left == sending.bytes);
  MessageQueues::Arrival& arrival = queues_.unexpected.emplace_back();
  arrival.from = sending.to;
  arrival.bytes = sending.bytes;
  arrival.data.assign(sending.next, sending.next + sending.bytes);
  arrival.claimed = queues_.match(arrival.from);
  queues_.finish_arrival(&arrival);
  sending.request->finish(ok_status());
}

Result<TaggedMessages::Request> TaggedMessages::receive(const Envelope& from, void* out,
                                                        std::size_t bytes) {
  std::lock_guard lock(mutex_);
  return or_end([&] { return receive_locked(from, out, bytes); });
}

Result<TaggedMessages::Request> TaggedMessages::receive_locked(const Envelope& from, void* out,
                                                               std::size_t bytes) {
  RONDO_CHECK_OK(usable(from));
  RONDO_CHECK_OK(start_thread());
  traffic_.progress();
  const Request request = new_request(Collective::kRecv, from, bytes);
  MessageQueues::Receive receive{from, static_cast<std::byte*>(out), bytes, request};
  MessageQueues::Arrival* const found = queues_.find_arrival(from);
  if (found == nullptr) {
    if (from.peer >= 0 && queues_.peers[from.peer].ended)
      return fail(StatusCode::kRemoteError, "{}; rank {} receives {} bytes with tag {} from it",
                  *queues_.peers[from.peer].ended, state_.members.rank, bytes, from.tag);
    queues_.posted.push_back(std::move(receive));
  } else if (found->id != 0) {
    traffic_.accept_offer(receive, *found);
    queues_.drop(found);
  } else {
    found->claimed = std::move(receive);
    if (found->complete) queues_.finish_arrival(found);
  }
  return request;
}

void TaggedMessages::cancel(const Completion* request, double waited_seconds) {
  std::lock_guard lock(mutex_);
  (void)or_end([&] { return queues_.cancel(request, waited_seconds), ok_status(); }).ok();
}

void TaggedMessages::abort(const Error& error) {
  std::lock_guard lock(mutex_);
  if (queues_.aborted) return;
  queues_.aborted = copy_of(error);
  (void)or_end([&] { return queues_.fail_all(error), ok_status(); }).ok();
}

std::uint64_t TaggedMessages::memory_bytes() {
  std::lock_guard lock(mutex_);
  return own_->memory().total() + queues_.memory_bytes();
}

std::uint64_t TaggedMessages::gpu_bytes() {
  std::lock_guard lock(mutex_);
  return own_->memory().device_bytes;
}

void TaggedMessages::help() {
  std::unique_lock lock(mutex_, std::try_to_lock);
  if (lock.owns_lock()) (void)move();
}

bool TaggedMessages::move() {
  const auto moved = or_end([this] { return Result<bool>(traffic_.progress()); });
  return moved.ok() && *moved;
}

bool TaggedMessages::flush(std::chrono::steady_clock::time_point deadline) {
  const auto is_flushed = [this] {
    std::lock_guard lock(mutex_);
    (void)move();
    if (!queues_.any_unsent() &&
        (state_.remote.links() == nullptr || state_.remote.links()->flushed()))
      return true;
    look_for_ended();
    return false;
  };
  return poll_until(is_flushed, deadline, std::chrono::milliseconds(1));
}

// ---- the thread ----

Status TaggedMessages::start_thread() {
  if (thread_.joinable() || state_.members.size == 1) return ok_status();
  RONDO_TRY(thread_, Thread::start(
                         "messages", [this] { serve(); },
                         [this](const Error& error) {
                           std::lock_guard lock(mutex_);
                           queues_.end_all(error);
                         }));
  return ok_status();
}

void TaggedMessages::look_for_ended() {
  (void)or_end([this] { return queues_.look_for_ended(), ok_status(); }).ok();
}

void TaggedMessages::serve() {
  const PeerPort& own = state_.host.self();
  const auto moved = [this](bool or_look) {
    std::lock_guard lock(mutex_);
    if (move()) return true;
    if (or_look) look_for_ended();
    return false;
  };
  while (!closing_.load()) {
    const std::uint32_t seen = HostAtomics::load_acquire(*own.bell);
    if (moved(true)) continue;
    if (state_.remote.links() == nullptr) {
      park<DoorbellAtomics>(
          *own.parked, *own.bell, seen, [&] { return closing_.load() || moved(false); },
          kLongestSleep, state_.host.light);
    } else {
      net::Sleeper sleeper;
      std::unique_lock lock(mutex_);  // the thread that drives the links must arm them
      const bool quiet = sleeper.add(*state_.remote.links());
      lock.unlock();
      constexpr std::chrono::milliseconds kNap{1};  // ranks of this host wake no socket
      if (quiet) sleeper.sleep(kNap);
    }
  }
}

}  // namespace rondo
