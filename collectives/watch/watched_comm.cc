// SPDX-License-Identifier: Apache-2.0
#include "collectives/watch/watched_comm.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/types.h"
#include "collectives/faults/peer_words.h"
#include "collectives/faults/standstill.h"
#include "collectives/profiler/abi.h"
#include "transport/shm/memfd.h"

namespace rondo::watch {
namespace {

using A = HostAtomics;

class Entering {
 public:
  explicit Entering(std::atomic_flag& flag) : flag_(flag) {
    while (flag_.test_and_set(std::memory_order_acquire)) {
    }
  }
  ~Entering() { flag_.clear(std::memory_order_release); }

 private:
  std::atomic_flag& flag_;
};

bool commit_record(void* at, std::size_t bytes) {
  return shm::commit(at, bytes, "the record of calls").ok();
}

// From the network's peer; else what is sent waits for room there.
bool waits_for_peer(int state, bool is_send) {
  if (!is_send) return state < 0 || state == profiler::abi::kRecvWait;
  return state == profiler::abi::kSendPeerWait || state == profiler::abi::kSendWait;
}

}  // namespace

WatchedComm::Operations WatchedComm::map_operations() {
  void* const pages = mmap(nullptr, sizeof(Operation) * kOperations, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return Operations(pages == MAP_FAILED ? nullptr : static_cast<Operation*>(pages));
}

void WatchedComm::Unmap::operator()(Operation* operations) const {
  munmap(operations, sizeof(Operation) * kOperations);
}

WatchedComm::WatchedComm(std::shared_ptr<shm::HostSegment> segment, Operations operations)
    : segment_(std::move(segment)),
      port_(segment_->port(0)),
      activity_(*segment_->activity(0)),
      operations_(std::move(operations)) {}

Result<std::unique_ptr<WatchedComm>> WatchedComm::open(const About& about) {
  RONDO_TRY(auto segment, shm::HostSegment::create({1, 0, 0, 0}, true));
  if (segment->fd() < 0)
    return fail(StatusCode::kSystemError, "memory files are not permitted here (seccomp)");
  Operations operations = map_operations();
  if (operations == nullptr)
    return fail_errno(errno, "cannot map memory for the calls of a communicator");
  std::unique_ptr<WatchedComm> comm(new WatchedComm(std::move(segment), std::move(operations)));
  A::store_relaxed(comm->activity_.device.network_peer, std::int32_t{-1});
  A::store_relaxed(comm->activity_.device.phase, std::int32_t{shm::kIdle});
  comm->hash_ = about.hash;
  comm->hosts_ = about.hosts;
  comm->order_ = about.order;
  comm->port_.identity->size = about.ranks;
  RONDO_CHECK_OK(shm::commit(comm->port_.trace, shm::kSegmentPage, "the communicator's id"));
  comm->set_up_record(about.has_record);
  if (about.rank >= 0) comm->identify(about.hash, about.name.c_str(), about.rank);
  comm->segment_->settle();
  return comm;
}

void WatchedComm::set_up_record(bool has_record) {
  if (!has_record) return;
  host::CallRecorder::Setup setup;
  setup.ring = port_.trace;
  setup.commit = commit_record;
  recorder_.set_up(setup);
  (void)recorder_.open_ring();  // without memory, calls are not recorded
}

// pid last: it says that the rest is there.
void WatchedComm::identify(std::uint64_t hash, const char* name, int rank) {
  Entering lock(entering_);
  if (is_known()) return;
  IdentityLine& identity = *port_.identity;
  hash_ = hash;
  identity.rank = rank;
  identity.size = std::max(identity.size, rank + 1);
  identity.pid_namespace = pid_namespace();
  if (name != nullptr) std::strncpy(identity.name, name, sizeof(identity.name) - 1);
  A::store_release(port_.trace->origin.communicator, hash);
  A::store_release(identity.pid, static_cast<std::int32_t>(getpid()));
  known_.store(true, std::memory_order_release);
}

int WatchedComm::rank() const { return port_.identity->rank; }

WatchedComm::Operation* WatchedComm::find(std::uint64_t number) {
  Operation& operation = operations_[number % kOperations];
  const std::uint64_t found = operation.number.load(std::memory_order_acquire);
  return found != 0 && (found & kNumber) == (number & kNumber) ? &operation : nullptr;
}

void WatchedComm::announce(std::uint64_t sequence, const CallRecord& call) {
  AnnounceLine& line = port_.announcements[sequence % kAnnounceDepth];
  A::store_release(line.sequence, std::uint64_t{0});
  store_record(line.record, call);
  A::store_release(line.sequence, sequence);
  A::store_release(port_.steps->sequence, sequence);
  const int kind = static_cast<int>(call.collective) - 1;
  if (kind < 0 || kind >= shm::ActivityLine::kCounted) return;
  A::store_relaxed(activity_.calls[kind], A::load_relaxed(activity_.calls[kind]) + 1);
}

std::uint64_t WatchedComm::enter(const CallRecord& call, int peer, std::uint32_t group) {
  constexpr auto kRelaxed = std::memory_order_relaxed;
  Entering lock(entering_);
  std::uint64_t number = newest_.load(kRelaxed) + 1;
  if ((number & kNumber) == 0) ++number;
  const std::uint64_t sequence = is_message(call) ? 0 : ++sequence_;
  Operation& operation = operations_[number % kOperations];
  if (operation.phase.exchange(shm::kIdle) == shm::kInKernel) count_end(operation);
  operation.number.store(0, std::memory_order_release);
  operation.sequence.store(sequence, kRelaxed);
  store_record(operation.call, call);
  operation.peer.store(peer, kRelaxed);
  operation.channels.store(0, kRelaxed);
  operation.kernels_begun.store(0, kRelaxed);
  operation.kernels_ended.store(0, kRelaxed);
  operation.transfers.store(0, kRelaxed);
  operation.group.store(group, kRelaxed);
  operation.order.store(order_ == nullptr ? 0 : order_->next(), kRelaxed);
  operation.phase.store(shm::kEntered, kRelaxed);
  operation.trace.store(recorder_.write_open(call, sequence), kRelaxed);
  if (sequence != 0) announce(sequence, call);
  operation.number.store(number, std::memory_order_release);
  newest_.store(number, std::memory_order_release);
  return number;
}

bool WatchedComm::enqueue(std::uint64_t number, unsigned channels) {
  Operation* const operation = find(number);
  if (operation == nullptr) return false;
  operation->channels.store(channels, std::memory_order_relaxed);
  std::int32_t before = shm::kEntered;
  if (operation->phase.compare_exchange_strong(before, shm::kEnqueued)) return true;
  return before == shm::kUnseen && operation->phase.compare_exchange_strong(before, shm::kEnqueued);
}

void WatchedComm::enqueue_unseen(std::uint64_t number) {
  Operation* const operation = find(number);
  if (operation == nullptr) return;
  operation->channels.store(1, std::memory_order_relaxed);  // it is not silent, but unseen
  std::int32_t entered = shm::kEntered;
  operation->phase.compare_exchange_strong(entered, shm::kUnseen);
}

void WatchedComm::show_graphs() {
  A::store_relaxed(segment_->messages()->has_graphs, std::int32_t{1});
}

// Of messages with its peer in its direction; null: not counted.
shm::WatchedMessages::Counts* WatchedComm::counts_of(const Operation& operation) {
  const std::int32_t peer = operation.peer.load(std::memory_order_relaxed);
  if (peer < 0 || peer >= shm::WatchedMessages::kRanks || peer == rank()) return nullptr;
  shm::WatchedMessages& messages = *segment_->messages();
  if (operation.call.collective == Collective::kRecv) return &messages.receives[peer];
  return operation.call.collective == Collective::kSend ? &messages.sends[peer] : nullptr;
}

// A put needs nothing of its target.
static bool needs_peer(const CallRecord& call) {
  return call.collective != Collective::kPut && call.collective != Collective::kSignal;
}

void WatchedComm::count_end(const Operation& operation) {
  shm::WatchedMessages::Counts* const counts = counts_of(operation);
  if (counts == nullptr) return;
  if (by_tags_.load(std::memory_order_relaxed))
    std::atomic_ref<std::uint8_t>(counts->begun).fetch_sub(1);
  else
    std::atomic_ref<std::uint8_t>(counts->ended).fetch_add(1);
}

void WatchedComm::begin_kernel(std::uint64_t number) {
  Operation* const operation = find(number);
  if (operation == nullptr) return;
  std::int32_t enqueued = shm::kEnqueued;
  if (operation->phase.compare_exchange_strong(enqueued, shm::kInKernel))
    if (shm::WatchedMessages::Counts* const counts = counts_of(*operation))
      std::atomic_ref<std::uint8_t>(counts->begun).fetch_add(1);
  operation->kernels_begun.fetch_add(1, std::memory_order_relaxed);
  moves_.fetch_add(1, std::memory_order_relaxed);
}

void WatchedComm::end_kernel(std::uint64_t number) {
  Operation* const operation = find(number);
  if (operation == nullptr) return;
  operation->kernels_ended.fetch_add(1);
  moves_.fetch_add(1, std::memory_order_relaxed);
  end_if_done(*operation);
}

void WatchedComm::end_if_done(Operation& operation) {
  if (operation.kernels_ended.load() >= operation.channels.load() &&
      operation.transfers.load() == 0)
    end(operation.number.load(std::memory_order_relaxed));
}

void WatchedComm::end_if_silent(std::uint64_t number) {
  Operation* const operation = find(number);
  if (operation != nullptr && operation->channels.load() == 0) end_if_done(*operation);
}

void WatchedComm::end(std::uint64_t number) {
  Operation* const operation = find(number);
  if (operation == nullptr) return;
  const std::int32_t phase = operation->phase.exchange(shm::kIdle);
  if (phase == shm::kIdle) return;
  if (phase == shm::kInKernel) count_end(*operation);
  moves_.fetch_add(1, std::memory_order_relaxed);
  recorder_.end_one(operation->trace.load(std::memory_order_relaxed), StatusCode::kSuccess);
  const std::uint64_t sequence = operation->sequence.load(std::memory_order_relaxed);
  std::atomic_ref<std::uint64_t> finished(port_.progress->finished);
  std::uint64_t before = finished.load(std::memory_order_relaxed);
  while (before < sequence && !finished.compare_exchange_weak(before, sequence)) {
  }
}

int WatchedComm::begin_transfer(std::uint64_t number, int peer, bool is_send) {
  Operation* const operation = find(number);
  if (operation == nullptr) return -1;
  operation->transfers.fetch_add(1);
  constexpr int kTries = 16;
  for (int i = 0; i < kTries; ++i) {
    const unsigned at = next_transfer_.fetch_add(1, std::memory_order_relaxed) % kTransfers;
    Transfer& transfer = transfers_[at];
    std::uint64_t free = 0;
    if (!transfer.operation.compare_exchange_strong(free, number & kNumber)) continue;
    transfer.peer.store(peer, std::memory_order_relaxed);
    transfer.is_send.store(is_send, std::memory_order_relaxed);
    transfer.state.store(-1, std::memory_order_relaxed);
    transfer.step.store(0, std::memory_order_relaxed);
    return static_cast<int>(at);
  }
  return -1;
}

void WatchedComm::show_step(int at, std::uint32_t step) {
  moves_.fetch_add(1, std::memory_order_relaxed);
  if (at < 0 || at >= kTransfers) return;
  transfers_[static_cast<std::size_t>(at)].step.store(step, std::memory_order_relaxed);
}

void WatchedComm::show_state(int at, int state) {
  if (at < 0 || at >= kTransfers) return;
  transfers_[static_cast<std::size_t>(at)].state.store(state, std::memory_order_relaxed);
}

void WatchedComm::end_transfer(int at, std::uint64_t number) {
  if (at >= 0 && at < kTransfers) {
    std::uint64_t used = number & kNumber;
    transfers_[static_cast<std::size_t>(at)].operation.compare_exchange_strong(used, 0);
  }
  moves_.fetch_add(1, std::memory_order_relaxed);
  Operation* const operation = find(number);
  if (operation == nullptr) return;
  std::uint32_t open = operation->transfers.load();
  while (open > 0 && !operation->transfers.compare_exchange_weak(open, open - 1)) {
  }
  end_if_done(*operation);
}

void WatchedComm::leave() {
  A::store_release(port_.progress->state, kLeft);
  A::store_release(activity_.device.wait_seen_ns, std::int64_t{0});
}

// ---- the thread that looks ----

// Operations of a communicator run in order.
void WatchedComm::end_unseen(std::uint64_t newest) {
  bool later_has_begun = false;
  for (std::uint64_t number = newest; number >= oldest_; --number) {
    Operation* const operation = find(number);
    const std::int32_t phase = operation == nullptr ? shm::kIdle : operation->phase.load();
    if (phase == shm::kUnseen && later_has_begun) end(number);
    later_has_begun |= phase == shm::kIdle || phase == shm::kInKernel;
  }
}

// True once its group of calls has ended for a second: events may follow the group's end.
bool WatchedComm::becomes_unseen(Operation& operation, std::int64_t now) {
  constexpr std::int64_t kPatience = 1'000'000'000;
  const std::uint64_t number = operation.number.load(std::memory_order_relaxed);
  const std::uint32_t group = operation.group.load(std::memory_order_relaxed);
  if (order_ == nullptr || !order_->has_ended(group)) return false;
  if (silent_ != number) silent_since_ns_ = now;
  silent_ = number;
  if (now - silent_since_ns_ < kPatience) return false;
  enqueue_unseen(number);
  return operation.phase.load() == shm::kUnseen;
}

WatchedComm::Operation* WatchedComm::oldest_open(std::int64_t now) {
  const std::uint64_t newest = newest_.load(std::memory_order_acquire);
  const std::uint64_t finished = A::load_acquire(port_.progress->finished);
  if (newest >= kOperations) oldest_ = std::max(oldest_, newest - kOperations + 1);
  end_unseen(newest);
  bool all_ended = true;
  for (std::uint64_t number = oldest_; number <= newest; ++number) {
    Operation* const operation = find(number);
    const bool ended = operation == nullptr || operation->phase.load() == shm::kIdle;
    if (ended && all_ended) oldest_ = number + 1;
    all_ended &= ended;
    if (ended) continue;
    const std::uint64_t sequence = operation->sequence.load(std::memory_order_relaxed);
    if (sequence != 0 && sequence <= finished) {
      end(number);
    } else if (operation->phase.load() != shm::kEntered || becomes_unseen(*operation, now)) {
      return operation;
    }
  }
  return nullptr;
}

void WatchedComm::show_network(std::uint64_t number) {
  std::int32_t peer = -1;
  std::uint32_t step = 0;
  bool of_send = true;
  for (const Transfer& transfer : transfers_) {
    const bool is_send = transfer.is_send.load(std::memory_order_relaxed);
    if (transfer.operation.load(std::memory_order_relaxed) != (number & kNumber) ||
        !waits_for_peer(transfer.state.load(std::memory_order_relaxed), is_send))
      continue;
    const std::uint32_t at = transfer.step.load(std::memory_order_relaxed);
    if (peer >= 0 && std::pair(is_send, at) >= std::pair(of_send, step)) continue;
    peer = transfer.peer.load(std::memory_order_relaxed);
    step = at;
    of_send = is_send;
  }
  A::store_relaxed(activity_.device.network_peer, peer);
  A::store_relaxed(activity_.device.network_step, step);
}

// All channels that have begun have ended, and no other one begins: a kernel may use fewer than it
// was given, and NCCL does not say so.
bool WatchedComm::seems_ended(const Operation& operation, std::int64_t quiet_ns) const {
  constexpr std::int64_t kLongQuiet = 500'000'000;
  const std::uint32_t begun = operation.kernels_begun.load(std::memory_order_relaxed);
  return begun > 0 && begun == operation.kernels_ended.load() && operation.transfers.load() == 0 &&
         operation.channels.load() > 0 && quiet_ns >= kLongQuiet;
}

void WatchedComm::look(std::int64_t now) {
  shm::ActivityLine::Device& line = activity_.device;
  Operation* const open = oldest_open(now);
  const std::int32_t phase = open != nullptr ? open->phase.load() : shm::kIdle;
  const std::uint64_t number = open != nullptr ? open->number.load() : 0;
  const std::uint64_t moves = moves_.load(std::memory_order_relaxed);
  if (moves != seen_moves_ || number != waited_in_ || quiet_since_ns_ == 0) quiet_since_ns_ = now;
  seen_moves_ = moves;
  waited_in_ = number;
  if (open != nullptr && seems_ended(*open, now - quiet_since_ns_)) return end(number);
  const bool entered = open == nullptr && A::load_acquire(port_.steps->sequence) >
                                              A::load_acquire(port_.progress->finished);
  A::store_relaxed(segment_->messages()->order,
                   open != nullptr ? open->order.load(std::memory_order_relaxed) : 0);
  A::store_release(line.phase,
                   phase == shm::kIdle && entered ? std::int32_t{shm::kEntered} : phase);
  if (phase != shm::kInKernel && phase != shm::kUnseen) {
    A::store_release(line.wait_seen_ns, std::int64_t{0});
    return;
  }
  store_record(line.call, open->call);
  const std::int32_t peer = open->peer.load(std::memory_order_relaxed);
  const bool awaits = needs_peer(open->call) && peer != rank();  // no rank waits for itself
  A::store_relaxed(line.waiting_for, awaits ? peer : -1);
  A::store_relaxed(line.wait_began_ns, quiet_since_ns_);
  show_network(number);
  A::store_release(line.wait_seen_ns, now);
}

}  // namespace rondo::watch
