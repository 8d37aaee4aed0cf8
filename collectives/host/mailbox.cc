// Mailbox: what users ask for, and the thread that works where nobody waits.
#include "collectives/host/mailbox.h"

#include <poll.h>

#include <algorithm>
#include <cstring>

#include "base/doorbell.h"
#include "collectives/communicator/communicator_state.h"
#include "collectives/watchdog/peer_words.h"

namespace rondo {
namespace {

constexpr std::chrono::seconds kLastFlush{10};
constexpr std::int64_t kLongestSleep = 100'000'000;  // ns

}  // namespace

Mailbox::Mailbox(std::shared_ptr<Communicator> own, std::size_t eager_bytes)
    : own_(std::move(own)),
      state_(*own_->state_),
      eager_bytes_(eager_bytes),
      peers_(state_.members.size) {}

Result<std::shared_ptr<Mailbox>> Mailbox::open(std::shared_ptr<Communicator> own,
                                               std::size_t eager_bytes) {
  std::shared_ptr<Mailbox> made(new Mailbox(std::move(own), eager_bytes));
  RONDO_CHECK_OK(made->open_connections());
  return made;
}

// Messages come unasked, so that the way from every peer is open from the start, and all know how
// long those may be.
Done Mailbox::open_connections() {
  const std::uint64_t own = eager_bytes_;
  RONDO_TRY(const auto limits, own_->exchange(std::as_bytes(std::span(&own, 1))));
  for (int r = 0; r < state_.members.size; ++r) {
    std::memcpy(&peers_[r].eager_bytes, limits[r].data(), sizeof(own));
    if (r == state_.members.rank) continue;
    RONDO_TRY(peers_[r].from, state_.connections->from(r, kPointToPointLane));
  }
  return done();
}

Mailbox::~Mailbox() {
  if (state_.forked()) {
    if (thread_.joinable()) thread_.detach();  // it exists in the parent alone
    return;
  }
  (void)guarded("messages", [this] {
    flush(std::chrono::steady_clock::now() + kLastFlush);
    return done();
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
    fail_all(fail(Status::kInvalidUsage, "the communicator of this message has been destroyed"));
    return done();
  }).ok();
}

Done Mailbox::usable(const Envelope& envelope) const {
  if (state_.forked())
    return fail(Status::kInvalidUsage,
                "this communicator belongs to the parent process: after fork, create a new one");
  if (aborted_) return *aborted_;
  if (envelope.peer < kAnySource || envelope.peer >= state_.members.size)
    return fail(Status::kInvalidArgument, "peer {} is not in 0..{}", envelope.peer,
                state_.members.size - 1);
  return done();
}

Result<Mailbox::Request> Mailbox::send(const Envelope& to, const void* data, std::size_t bytes) {
  std::lock_guard lock(mutex_);
  return or_end([&] { return send_locked(to, data, bytes); });
}

Result<Mailbox::Request> Mailbox::send_locked(const Envelope& to, const void* data,
                                              std::size_t bytes) {
  RONDO_CHECK_OK(usable(to));
  if (to.peer == kAnySource)
    return fail(Status::kInvalidArgument, "a message is sent to one rank; name it");
  auto request = std::make_shared<Completion>([self = weak_from_this()] {
    if (auto alive = self.lock()) alive->help();
  });
  Sending sending;
  sending.to = to;
  sending.bytes = sending.left = bytes;
  sending.next = static_cast<const std::byte*>(data);
  sending.request = request;
  if (to.peer == state_.members.rank) {
    deliver_to_self(sending);
    return request;
  }
  Peer& peer = peers_[to.peer];
  if (peer.ended)
    return fail(Status::kRemoteError, "{}; rank {} sends it {} bytes with tag {}", *peer.ended,
                state_.members.rank, bytes, to.tag);
  if (peer.to == nullptr) {
    RONDO_TRY(peer.to, state_.connections->to(to.peer, kPointToPointLane));
  }
  RONDO_CHECK_OK(start_thread());
  if (bytes > eager_bytes_) {
    sending.kind = kOffer;
    sending.id = next_id(peer);
  }
  enqueue(to.peer, std::move(sending));
  return request;
}

// Round and round: 0 is none, and what an old offer still has is left out.
std::uint32_t Mailbox::next_id(const Peer& peer) {
  while (last_id_ == UINT32_MAX || peer.offered.count(last_id_ + 1) > 0)
    last_id_ = last_id_ == UINT32_MAX ? 0 : last_id_ + 1;
  return ++last_id_;
}

void Mailbox::deliver_to_self(Sending& sending) {
  Envelope from = sending.to;
  unexpected_.emplace_back();
  Arrival& arrival = unexpected_.back();
  arrival.from = from;
  arrival.bytes = sending.bytes;
  arrival.data.assign(sending.next, sending.next + sending.bytes);
  arrival.claimed = match(from);
  finish_arrival(&arrival);
  sending.request->finish(done());
}

Result<Mailbox::Request> Mailbox::receive(const Envelope& from, void* out, std::size_t bytes) {
  std::lock_guard lock(mutex_);
  return or_end([&] { return receive_locked(from, out, bytes); });
}

Result<Mailbox::Request> Mailbox::receive_locked(const Envelope& from, void* out,
                                                 std::size_t bytes) {
  RONDO_CHECK_OK(usable(from));
  RONDO_CHECK_OK(start_thread());
  progress();
  Receive receive{from, static_cast<std::byte*>(out), bytes,
                  std::make_shared<Completion>([self = weak_from_this()] {
                    if (auto alive = self.lock()) alive->help();
                  })};
  const Request request = receive.request;
  const auto fitting = [&](const Arrival& arrival) {
    return !arrival.claimed && arrival.from.tag == from.tag &&
           (from.peer == kAnySource || arrival.from.peer == from.peer);
  };
  const auto found = std::find_if(unexpected_.begin(), unexpected_.end(), fitting);
  if (found == unexpected_.end()) {
    if (from.peer >= 0 && peers_[from.peer].ended)
      return fail(Status::kRemoteError, "{}; rank {} receives {} bytes with tag {} from it",
                  *peers_[from.peer].ended, state_.members.rank, bytes, from.tag);
    posted_.push_back(std::move(receive));
  } else if (found->id != 0) {
    accept_offer(receive, *found);
    unexpected_.erase(found);
  } else {
    found->claimed = std::move(receive);
    if (found->complete) finish_arrival(&*found);
  }
  return request;
}

void Mailbox::help() {
  std::unique_lock lock(mutex_, std::try_to_lock);
  if (lock.owns_lock()) (void)move();
}

bool Mailbox::move() {
  const auto moved = or_end([this] { return Result<bool>(progress()); });
  return moved.ok() && *moved;
}

bool Mailbox::flush(std::chrono::steady_clock::time_point deadline) {
  for (;;) {
    {
      std::lock_guard lock(mutex_);
      (void)move();
      const bool unsent = std::any_of(peers_.begin(), peers_.end(),
                                      [](const Peer& peer) { return !peer.out.empty(); });
      if (!unsent && (state_.remote.links() == nullptr || state_.remote.links()->flushed()))
        return true;
      (void)or_end([this] { return look_for_ended(), done(); }).ok();
    }
    if (std::chrono::steady_clock::now() >= deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

// ---- the thread ----

Done Mailbox::start_thread() {
  if (thread_.joinable() || state_.members.size == 1) return done();
  RONDO_TRY(thread_, Thread::start(
                         "messages", [this] { serve(); },
                         [this](const Error& error) {
                           std::lock_guard lock(mutex_);
                           end_all(error);
                         }));
  return done();
}

void Mailbox::serve() {
  const PeerPort& own = state_.host.self();
  const auto moved = [this] {
    std::lock_guard lock(mutex_);
    return move();
  };
  while (!closing_.load()) {
    const std::uint32_t seen = HostAtomics::load_acquire(*own.bell);
    if (moved()) continue;
    {
      std::lock_guard lock(mutex_);
      (void)or_end([this] { return look_for_ended(), done(); }).ok();
    }
    if (state_.remote.links() == nullptr) {
      park<DoorbellAtomics>(
          *own.parked, *own.bell, seen, [&] { return closing_.load() || moved(); }, kLongestSleep);
    } else {
      pollfd sockets{state_.remote.links()->poll_fd(), POLLIN, 0};
      poll(&sockets, 1, 1);  // ms: ranks of this host ring no socket
    }
  }
}

}  // namespace rondo
