// The verbs that algorithms are written in: two C++20 concepts, and the small values they speak of.
//
// An algorithm (kernels/algorithms) is a function template over one of the concepts. Executors
// (kernels/host, kernels/cuda, kernels/check, kernels/sim) implement them. Text is uniform over a
// CTA: no thread index, no std containers, no exceptions. When something fails, the executor turns
// all later verbs into no-ops: text needs no error paths, but every loop in it must be bounded.
//
// PeerMemory: ranks read each other. All positions and counts are elements.
//   open(slot)                   this rank may overwrite its staging slot from here on
//   expose(slot, piece)          make input[piece.at...] readable by peers as `piece` of that slot
//   publish()                    make all that was exposed or reduced so far visible: one step
//   wait(r)                      until rank r has published as often in this call as this rank
//   reduce(slot, piece, to)      combine every rank's `piece` (balanced tree over rank numbers) and
//                                deliver it as `to` says
//   copy(r, slot, piece, at)     output[at...] = `piece` of rank r's slot
//   copy_result(r, slot, piece)  output[piece.at...] = what r's reduce() delivered there
//   copy_own(from, at, count)    output[at...] = own input[from...]
//   release()                    last verb: nobody touches this rank's own buffers after it
// A slot is written again only after open(); open() waits until every rank has taken the step after
// the one that published the slot's last contents, so text must publish after it has read.
//
// RelayingMemory adds, for texts that work on a result before its peers may have it:
//   expose_kept(slot, piece)     what output[piece.at...] holds is this rank's result, as if
//                                reduce() had delivered it: peers fetch it with copy_result
//   reduce_kept(slot, piece, to, window)  combines every rank's `piece` into this rank's own slot
//                                `to`, not finished
//   copy_kept(r, slot, piece)    output[piece.at...] = what lies in rank r's slot (or the own one)
//
// Primitives: data passes along connections to a next rank and from a previous one, in order.
//   send(c)                   input[c] goes to next
//   recv(c)                   output[c] comes from previous
//   copy_send(c)              output[c] = input[c], and on to next
//   recv_copy_send(c)         output[c] comes from previous, and on to next
//   recv_reduce_send(c)       (from previous) + input[c] goes to next; nothing is kept
//   recv_reduce_copy(c)       output[c] = (from previous) + input[c], finished
//   recv_reduce_copy_send(c)  the same, and on to next
// A verb that receives and sends waits for the data and for the free slot, then moves; a chunk of
// no elements is no message. Texts that run around a cycle therefore need two slots a connection.
//
// FoldingPrimitives accumulate in the output, for texts whose order is not "previous, then own":
//   send_kept(c)              output[c] goes to next
//   recv_reduce_before(c)     output[c] = (from previous) + output[c], not finished
//   recv_reduce_after(c)      output[c] = output[c] + (from previous), not finished
//   finish(c)                 finishes output[c] (avg divides)
//
// Links makes such verbs between any ranks, for texts with several neighbours:
//   between(from, to, channel)  Primitives with up to two previous and two next ranks. Reductions
//                               combine (from first + own) + from second; without a previous rank
//                               they take this rank's own alone, without a next one send to nobody.
//                               Each (sender, receiver, channel) is a connection of its own.
//   roles(a, b)                 runs two texts at once and returns when both have ended
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
  std::uint64_t at;  // position in the output, the same on every rank that gets it
  int slot;          // >= 0: readers fetch it from this slot with copy_result
  std::uint64_t window;
  int reader;            // the only rank that fetches it, or -1: all do
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

// The rounds in which a call walks over `count` elements, `per_round` at a time. A call of no
// elements has no rounds.
struct Rounds {
  std::uint64_t count;
  std::uint64_t per_round;
  std::uint64_t grain;      // parts begin at multiples of this many elements (a cache line's worth)
  std::uint64_t whole = 0;  // partners exchange up to this many elements as a whole

  RONDO_FN constexpr std::uint64_t size() const { return (count + per_round - 1) / per_round; }
  RONDO_FN constexpr Slice operator[](std::uint64_t round) const {
    const std::uint64_t begin = round * per_round;
    return {begin, count - begin < per_round ? count - begin : per_round};
  }
};

// The slot in which consecutive rounds of a text with one publication a round lie in turn.
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

// What one verb of Primitives moves: elements [in_at, in_at + count) of the input, to or through
// elements [out_at, ...) of the output (they differ where input and output have different shapes).
// At most one slot's worth.
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

// The ranks at one side of some Primitives; -1: none.
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

// Chunk t of the chunks of at most `longest` elements that a slice is moved in, input and output
// alike.
RONDO_FN constexpr std::uint64_t chunks_of(Slice slice, std::uint64_t longest) {
  return (slice.count + longest - 1) / longest;
}
RONDO_FN constexpr Chunk chunk_of(Slice slice, std::uint64_t t, std::uint64_t longest) {
  const std::uint64_t at = slice.begin + t * longest;
  const std::uint64_t rest = slice.begin + slice.count - at;
  return {at, at, rest < longest ? rest : longest};
}

}  // namespace rondo
