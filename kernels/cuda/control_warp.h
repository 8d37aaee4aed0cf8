// SPDX-License-Identifier: Apache-2.0
// The control warp: the CUDA executor of the Primitives and Links verbs. One warp of a group runs
// the algorithm. A verb waits for its slots, writes a job for the workers (job_ring.h) and returns.
//
// Guarantees: a verb waits only for its own slots, while workers move the jobs before it; after a
// failed wait, verbs do nothing. Cost per verb: one thread reads and writes about forty words of
// shared memory.
#pragma once

#include "kernels/cuda/end_lane.h"
#include "kernels/cuda/end_wait.h"
#include "kernels/cuda/job_ring.h"
#include "kernels/primitives.h"

namespace rondo::cuda {

// The elements of every block that this CTA's channel moves. The algorithm sees nothing else.
RONDO_FN inline Slice part_of_cta() { return {read_word(kSliceAt), read_word(kSliceAt + 1)}; }

// The actions of a verb.
enum Verb : std::uint32_t {
  kReceives = 1,
  kSends = 2,
  kTakesOwn = 4,  // this rank's input is an operand
  kKeeps = 8,     // the result is stored in the output
  kIsFinished = 16,
};

// Indexes + 1 of the ends that a verb may use, one byte each: two incoming, two outgoing; 0: none.
using VerbEnds = std::uint32_t;

// Converts a position in the algorithm's buffers to one in the caller's: the channel's part of a
// block is a part of every block.
RONDO_FN inline std::uint64_t place_of(std::uint64_t at, std::uint64_t block, Slice part) {
  std::uint64_t place = part.begin;
  for (; at >= part.count; at -= part.count) place += block;  // at most once per rank
  return place + at;
}

// Describes the waiting call for wait_for_end(): the call that the CTA runs. Read only if a wait
// does not end at once.
struct CtaCallWaiter {
  static RONDO_FN Control* control() { return CtaCall::control(); }
  static RONDO_FN CtaCallRecord call() { return {}; }
  static RONDO_FN int channel() { return CtaCall::channel(); }
  static RONDO_FN NoReporter reporter() { return {}; }
};

// Writes the job of one verb; called by one thread. Returns false if the CTA has failed.
template <class Math>
RONDO_FN inline bool write_job(const JobRing& ring, std::uint32_t verb, VerbEnds ends,
                               const Chunk& c) {
  constexpr std::uint64_t kWidth = sizeof(typename Math::T);
  if (cta_failed()) return false;
  const Protocol protocol = CtaCall::protocol();
  const bool flagged = protocol != Protocol::kSimple;  // the data's flags report its arrival
  const unsigned number = ring.next();
  const std::uint32_t job = ring.at(number);
  std::uint64_t peers = 0, step = 0;
  std::uint32_t how = 0;
  RONDO_NO_UNROLL
  for (unsigned i = 0; i < 4; ++i) {
    const bool incoming = i < 2;
    const int index = static_cast<int>(ends >> 8 * i & 0xff) - 1;
    const bool used = index >= 0 && (verb & (incoming ? kReceives : kSends)) != 0;
    write_word(job + (incoming ? kFrom : kTo) + i % 2, 0);
    write_word(job + kPosts + 2 * i, 0);
    if (!used) continue;
    const EndAt end = end_at(incoming ? kIncoming : kOutgoing, index);
    if (!(flagged && incoming) && !wait_for_end(end, incoming, !flagged, CtaCallWaiter{}))
      return false;
    const std::uint64_t now = end.step();
    write_word(job + (incoming ? kFrom : kTo) + i % 2,
               reinterpret_cast<std::uintptr_t>(end.slot()));
    write_word(job + (incoming ? kFromFlags : kToFlags) + i % 2, now + 1);
    if (incoming) {
      peers |= static_cast<std::uint64_t>(static_cast<std::uint32_t>(end.peer())) << 32 * i;
      if (i == 0) step = now;
    } else if (protocol == Protocol::kLL && (now & 0x7fffffff) < end.slot_count()) {
      how |= i == 2 ? kFillsSlot0 : kFillsSlot1;
    } else if (std::uint64_t* const used = end.used(); used != nullptr) {
      // Ordered by the signal warp's fence, through the workers.
      device::store_relaxed<device::Scope::kSystem>(used + end.next_slot(), c.count * kWidth);
    }
    if (incoming || !flagged) {
      write_word(job + kPosts + 2 * i,
                 reinterpret_cast<std::uintptr_t>(incoming ? end.head() : end.tail()));
      write_word(job + kPosts + 2 * i + 1, now + 1);
    }
    end.turn();
    end.set_step(now + 1);
  }
  const Slice part = part_of_cta();
  const std::uint64_t block = CtaCall::count();
  const std::uint64_t own = CtaCall::input() + place_of(c.in_at, block, part) * kWidth;
  const std::uint64_t keep = CtaCall::output() + place_of(c.out_at, block, part) * kWidth;
  const bool takes_own = (verb & kTakesOwn) != 0;
  const bool receives = (verb & kReceives) != 0 && (ends & 0xff) != 0;
  if (takes_own && (receives || (Math::kScales && CtaCall::op() == RedOp::kPreMulSum)))
    how |= kReduces;
  if ((verb & kIsFinished) != 0) how |= kReduces;
  if ((verb & kIsFinished) != 0 && CtaCall::op() == RedOp::kAvg) how |= kFinishes;
  write_word(job + kOwn, takes_own ? own : 0);
  // What is sent in place is already where it is kept.
  const bool is_kept = keep == own && !receives && (how & kReduces) == 0;
  write_word(job + kKeep, (verb & kKeeps) != 0 && !is_kept ? keep : 0);
  write_word(job + kCount, c.count);
  write_word(job + kHow, how);
  write_word(job + kFromPeers, peers);
  write_word(job + kStep, step);
  ring.publish(number);
  return true;
}

// Runs one verb, by the whole warp: one job for every slot of its chunk. Peers split chunks
// equally. Not inlined, because algorithms contain many verbs.
template <class Math>
RONDO_FN RONDO_NO_INLINE void run_verb(const ConnectedArgs& args, std::uint32_t verb, VerbEnds ends,
                                       std::uint64_t in_at, std::uint64_t out_at,
                                       std::uint64_t count) {
  const JobRing ring{Group::of_thread(args.groups)};
  RONDO_NO_UNROLL
  while (count > 0) {
    const std::uint64_t slice = CtaCall::slice();
    const std::uint64_t part = count < slice ? count : slice;
    std::uint32_t written = 0;
    if (device::lane_index() == 0)
      written = write_job<Math>(ring, verb, ends, {in_at, out_at, part}) ? 1 : 0;
    if (device::shuffle(written, 0) == 0) return;
    in_at += part, out_at += part, count -= part;
  }
}

// Primitives over up to two previous and two next ranks.
template <class Math>
struct DevicePrimitives {
  const ConnectedArgs& args;
  VerbEnds ends;

  RONDO_FN void send(const Chunk& c) { run(kSends | kTakesOwn, c); }
  RONDO_FN void copy_send(const Chunk& c) { run(kSends | kTakesOwn | kKeeps, c); }
  RONDO_FN void recv(const Chunk& c) { run(kReceives | kKeeps, c); }
  RONDO_FN void recv_copy_send(const Chunk& c) { run(kReceives | kSends | kKeeps, c); }
  RONDO_FN void recv_reduce_send(const Chunk& c) { run(kReceives | kSends | kTakesOwn, c); }
  RONDO_FN void recv_reduce_copy(const Chunk& c) {
    run(kReceives | kTakesOwn | kKeeps | kIsFinished, c);
  }
  RONDO_FN void recv_reduce_copy_send(const Chunk& c) {
    run(kReceives | kSends | kTakesOwn | kKeeps | kIsFinished, c);
  }

 private:
  RONDO_FN void run(std::uint32_t verb, const Chunk& c) {
    if (c.count == 0) return;
    run_verb<Math>(args, verb, ends, c.in_at, c.out_at, c.count);
  }
};

// How an algorithm identifies ranks: rings by number, trees by position in the channel's order.
enum class Speak : std::uint8_t { kNumbers, kPositions };

template <class Math, Speak kSpeak>
struct DeviceLinks {
  const ConnectedArgs& args;

  RONDO_FN int rank() const {
    return kSpeak == Speak::kPositions ? CtaCall::position() : CtaCall::rank();
  }
  RONDO_FN int size() const { return args.ranks; }
  RONDO_FN DevicePrimitives<Math> between(Peers from, Peers to, int lane) const {
    if (device::lane_index() != 0) return {args, 0};
    return {args, find(kIncoming, from.first, lane) | find(kIncoming, from.second, lane) << 8 |
                      find(kOutgoing, to.first, lane) << 16 |
                      find(kOutgoing, to.second, lane) << 24};
  }
  // Each thread group runs one of the two functions.
  template <class First, class Second>
  RONDO_FN void roles(const First& first, const Second& second) const {
    if (Group::of_thread(args.groups).number == 0) {
      first();
    } else {
      second();
    }
  }

 private:
  static RONDO_FN VerbEnds find(int direction, int peer, int lane) {
    if (peer < 0) return 0;
    RONDO_NO_UNROLL
    for (unsigned i = 0; i < kEnds; ++i) {
      const EndAt end = end_at(direction, static_cast<int>(i));
      if (end.slot_count() != 0 && is_of(end, peer, lane)) return i + 1;
    }
    return 0;
  }
  static RONDO_FN bool is_of(const EndAt& end, int peer, int lane) {
    if (kSpeak == Speak::kPositions) return end.lane() == end_lane(lane, peer);
    return end.peer() == peer && lane_of_end(end.lane()) == lane;
  }
};

}  // namespace rondo::cuda
