// SPDX-License-Identifier: Apache-2.0
// The verbs that algorithms are written in: C++20 concepts and the small structs that they use.
//
// An algorithm (kernels/algorithms) is a function template over one of the concepts. Executors
// (kernels/host, kernels/cuda, tests/checker, kernels/sim) implement the concepts. All threads of a
// CTA run the same verbs: an algorithm uses no thread index, no std containers and no exceptions.
// After a failure, the executor turns all later verbs into no-ops. So an algorithm needs no error
// paths, but every loop in it must be bounded.
//
// PeerMemory: ranks read each other's memory. All positions and counts are in elements.
//   open(slot)                   this rank may overwrite its staging slot from now on
//   expose(slot, piece)          makes input[piece.at...] readable by peers as `piece` of that slot
//   publish()                    makes all that was exposed or reduced so far visible: one step
//   wait(r)                      waits until rank r has published as often in this call as this
//                                rank
//   reduce(slot, piece, to)      combines every rank's `piece` (balanced tree over rank numbers),
//                                delivers it as `to` specifies
//   copy(r, slot, piece, at)     output[at...] = `piece` of rank r's slot
//   copy_result(r, slot, piece)  output[piece.at...] = what r's reduce() delivered for this piece
//   copy_own(from, at, count)    output[at...] = own input[from...]
//   release()                    last verb: no rank touches this rank's own buffers after it
//   growth(rounds)               not of all executors; once this rank has waited for all others:
//                                how many times as large as planned all rounds but the first
//                                are, of a call with `rounds` of them; the same on all ranks
// A slot must be opened again before it is written again. open() waits until every rank has taken
// the step after the one that published the slot's last contents. An algorithm must therefore
// publish after it has read.
//
// RelayingMemory adds verbs for algorithms that work on a result before peers may read it:
//   expose_kept(slot, piece)     output[piece.at...] is this rank's result, as if reduce() had
//                                delivered it: peers fetch it with copy_result
//   reduce_kept(slot, piece, to, window)  combines every rank's `piece` into this rank's own slot
//                                `to`, not finished
//   copy_kept(r, slot, piece)    output[piece.at...] = the piece in rank r's slot (or the own one)
//
// Primitives: data passes along connections, in order, from a previous rank and to a next rank.
//   send(c)                   sends input[c] to next
//   recv(c)                   output[c] = (from previous)
//   copy_send(c)              output[c] = input[c], and sends it to next
//   recv_copy_send(c)         output[c] = (from previous), and sends it to next
//   recv_reduce_send(c)       sends (from previous) + input[c] to next; stores nothing here
//   recv_reduce_copy(c)       output[c] = (from previous) + input[c], finished
//   recv_reduce_copy_send(c)  the same, and sends it to next
// A verb that receives and sends waits for the data and for the free slot, then moves. Therefore
// algorithms that run around a cycle need two slots per connection. An empty chunk is no message.
//
// FoldingPrimitives accumulate in the output, for reductions whose order is not "previous, then
// own":
//   send_kept(c)              sends output[c] to next
//   recv_reduce_before(c)     output[c] = (from previous) + output[c], not finished
//   recv_reduce_after(c)      output[c] = output[c] + (from previous), not finished
//   finish(c)                 finishes output[c] (avg divides)
//
// Links makes such verbs between any ranks, for algorithms with several neighbours:
//   between(from, to, channel)  Primitives with up to two previous and two next ranks. Reductions
//                               combine (from first + own) + from second. Without a previous rank
//                               the value is this rank's own; without a next rank nothing is sent.
//                               Each (sender, receiver, channel) is a connection of its own.
//   roles(a, b)                 runs two functions at once and returns when both have ended
#pragma once

#include <cstdint>

#include "base/fn.h"
#include "transport/connection.h"

namespace rondo {

// Elements [at, at + count) of a buffer, staged at element `window` of a slot.
struct Piece {
  std::uint64_t at;
  std::uint64_t window;
  std::uint64_t count;
};

// Where a reduction goes: to this rank's own output (keep), and to peers by way of a slot.
struct Delivery {
  bool keep;         // write output[at...]
  std::uint64_t at;  // position in the output, the same on every receiving rank
  int slot;          // >= 0: readers fetch it from this slot with copy_result
  std::uint64_t window;
  int reader;            // the only rank that fetches it, or -1: all ranks
  bool finished = true;  // false: a partial result (avg does not divide yet)
};

// A contiguous range of elements.
struct Slice {
  std::uint64_t begin;
  std::uint64_t count;
};

// Part `index` of `parts` nearly equal parts of a slice; boundaries on multiples of `grain`.
RONDO_FN RONDO_NO_INLINE constexpr Slice part_of(Slice whole, int index, int parts,
                                                 std::uint64_t grain) {
  const std::uint64_t grains = (whole.count + grain - 1) / grain;
  const std::uint64_t per_part = grains / parts;
  const std::uint64_t longer = grains % parts;
  const auto i = static_cast<std::uint64_t>(index);
  const std::uint64_t first = (i * per_part + (i < longer ? i : longer)) * grain;
  const std::uint64_t length = (per_part + (i < longer ? 1 : 0)) * grain;
  const std::uint64_t begin = first < whole.count ? first : whole.count;
  const std::uint64_t end = first + length < whole.count ? first + length : whole.count;
  return {whole.begin + begin, end - begin};
}

inline constexpr int kBothTrees = -1;

// The rounds that split a call of `count` elements, `per_round` at a time. A call of no elements
// has no rounds.
struct Rounds {
  std::uint64_t count;
  std::uint64_t per_round;
  std::uint64_t grain;      // parts begin at multiples of this many elements (a cache line)
  std::uint64_t whole = 0;  // partners exchange up to this many elements without halving
  int tree = kBothTrees;    // the tree of the double tree that carries all, or both: half each

  RONDO_FN constexpr std::uint64_t size() const { return (count + per_round - 1) / per_round; }
  RONDO_FN constexpr Slice operator[](std::uint64_t round) const {
    const std::uint64_t begin = round * per_round;
    return {begin, count - begin < per_round ? count - begin : per_round};
  }
};

// Rounds of which the ones after the first may become larger. Executors without growth() keep
// Rounds.
struct GrowingRounds {
  Rounds planned;
  int growth = 1;
  std::uint64_t grain = planned.grain;

  RONDO_FN constexpr std::uint64_t size() const {
    if (planned.count <= planned.per_round) return planned.size();
    const std::uint64_t later = planned.per_round * growth;
    return 1 + (planned.count - planned.per_round + later - 1) / later;
  }
  RONDO_FN constexpr Slice operator[](std::uint64_t round) const {
    if (round == 0) return planned[0];
    const std::uint64_t later = planned.per_round * growth;
    const std::uint64_t begin = planned.per_round + (round - 1) * later;
    return {begin, planned.count - begin < later ? planned.count - begin : later};
  }
};

template <class P>
RONDO_FN auto growing(const P&, const Rounds& planned) {
  if constexpr (requires(P & p) { p.growth(1); }) {
    return GrowingRounds{planned};
  } else {
    return planned;
  }
}
template <class P>
RONDO_FN void grow(P&, Rounds&) {}
template <class P>
RONDO_FN void grow(P& p, GrowingRounds& rounds) {
  rounds.growth = p.growth(rounds.size());
}

// The slot of a round, for algorithms that publish once per round: rounds rotate through the slots.
RONDO_FN constexpr int slot_of(std::uint64_t round) {
  return static_cast<int>(round % kStagingSlots);
}

template <class P>
concept PeerMemory = requires(P& p, int i, std::uint64_t n, Piece piece, Delivery to) {
  {p.rank()};
  {p.size()};
  p.open(i);
  p.expose(i, piece);
  p.publish();
  p.wait(i);
  p.reduce(i, piece, to);
  p.copy(i, i, piece, n);
  p.copy_result(i, i, piece);
  p.copy_own(n, n, n);
  p.release();
};

template <class P>
concept RelayingMemory = PeerMemory<P> && requires(P& p, int i, std::uint64_t n, Piece piece) {
  p.expose_kept(i, piece);
  p.reduce_kept(i, piece, i, n);
  p.copy_kept(i, i, piece);
};

template <class P>
RONDO_FN void wait_for_all(P& p) {
  for (int k = 1; k < p.size(); ++k) p.wait((p.rank() + k) % p.size());
}

// The elements that one Primitives verb moves: [in_at, in_at + count) of the input and [out_at,
// out_at + count) of the output. The positions differ if input and output have different shapes. At
// most one slot's worth.
struct Chunk {
  std::uint64_t in_at;
  std::uint64_t out_at;
  std::uint64_t count;
};

template <class P>
concept Primitives = requires(P& p, Chunk c) {
  p.send(c);
  p.recv(c);
  p.copy_send(c);
  p.recv_copy_send(c);
  p.recv_reduce_send(c);
  p.recv_reduce_copy(c);
  p.recv_reduce_copy_send(c);
};

template <class P>
concept FoldingPrimitives = Primitives<P> && requires(P& p, Chunk c) {
  p.send_kept(c);
  p.recv_reduce_before(c);
  p.recv_reduce_after(c);
  p.finish(c);
};

// The ranks on one side of a Primitives object; -1: none.
struct Peers {
  int first = -1;
  int second = -1;
};

template <class C>
concept Links = requires(C& c, Peers peers, int channel, void (*text)()) {
  {c.rank()};
  {c.size()};
  { c.between(peers, peers, channel) } -> Primitives;
  c.roles(text, text);
};

template <class C>
concept FoldingLinks = Links<C> && requires(C& c, Peers peers, int channel) {
  { c.between(peers, peers, channel) } -> FoldingPrimitives;
};

// A slice is moved in chunks of at most `longest` elements: their number, and chunk t. Input and
// output positions are equal.
RONDO_FN constexpr std::uint64_t chunks_of(Slice slice, std::uint64_t longest) {
  return (slice.count + longest - 1) / longest;
}
RONDO_FN constexpr Chunk chunk_of(Slice slice, std::uint64_t t, std::uint64_t longest) {
  const std::uint64_t at = slice.begin + t * longest;
  const std::uint64_t rest = slice.begin + slice.count - at;
  return {at, at, rest < longest ? rest : longest};
}

}  // namespace rondo
