// SPDX-License-Identifier: Apache-2.0
// LL push: the CUDA executor of PeerMemory for small calls between devices that reach each other.
// Exposed data is pushed into every peer's staging, in lines with flags.
//
// It runs algorithms in which all ranks expose in every round, in two alternating slots, and read
// in that round what they wait for (one_shot_all_reduce, direct_all_gather). Input and output may
// be the caller's own buffers.
// Guarantees: the bits of reduce.h in tree order. Requires only that 8-byte accesses are atomic. No
// signal reports that lines were read: a rank that pushes round r has received lines of round r - 1
// from all, and each rank sent those after it had finished round r - 2, whose slot is now reused.
// Calls of a list continue the round numbers of the previous call. CTAs are not ordered, so a call
// must not touch what another call writes.
// Cost: one crossing of the link; n - 1 times the data leaves each rank. More than kLLPushAtOnce
// ranks (wide): a read of the device's own memory for each group of them, and for each address.
#pragma once

#include "kernels/algorithms/run_algorithm.h"
#include "kernels/cuda/job_math.h"
#include "kernels/cuda/kernel_wait.h"
#include "kernels/cuda/launch_words.h"
#include "kernels/cuda/ll_push_args.h"
#include "kernels/cuda/own_bytes.h"
#include "kernels/cuda/tree.h"

namespace rondo::cuda {

template <class Math, bool wide>
class LLPushMemory {
  using T = typename Math::T;
  static constexpr std::uint64_t kWidth = sizeof(T);

 public:
  // round: the CTA's last finished round.
  RONDO_FN LLPushMemory(const LLPushArgs& args, int number, Slice part, std::uint64_t round)
      : args_(args),
        number_(number),
        part_(part),
        math_(Math::of(call().record, args.ranks, {call().scalar, call().late_scalar != 0})),
        round_(round) {
    if (!is_reporter()) return;
    write_word(kArrivalsAt, 0);
    const LaunchCount count = load_launches(args.launches, channel());
    write_word(kNumberAt, count.number);
    write_word(kDigestAt, count.digest);
  }

  static RONDO_FN void begin() {
    if (is_reporter()) begin_waits();
  }
  RONDO_FN std::uint64_t round() const { return round_; }

  RONDO_FN int rank() const { return args_.rank; }
  RONDO_FN int size() const { return args_.ranks; }
  RONDO_FN void open(int /*slot*/) {
    device::barrier();  // all threads have finished the previous round
    ++round_;
  }
  // Peers need no signal; the hosts get their report while the data is in flight.
  RONDO_FN void publish() const {
    if (!is_reporter() || read_word(kArrivalsAt) != 0) return;
    write_word(kArrivalsAt, 1);
    report_begun(args_.control, channel(), call().record,
                 {read_word(kNumberAt), read_word(kDigestAt)}, args_.launches);
  }
  RONDO_FN void wait(int /*peer*/) const {}

  RONDO_FN void expose(int /*slot*/, Piece piece) const {
    const std::uint64_t bytes = piece.count * kWidth;
    const std::uint64_t lines = lines_of(bytes);
    RONDO_NO_UNROLL
    for (std::uint64_t line = device::thread_index(); line < end_of(lines);
         line += device::thread_count()) {
      const std::uint64_t data = line < lines ? read_input(piece.at, line, bytes) : 0;
      const device::Pair pair = pair_of(data);
      RONDO_NO_UNROLL
      for (int k = 1; k < args_.ranks; ++k) {
        const int to = args_.rank + k < args_.ranks ? args_.rank + k : args_.rank + k - args_.ranks;
        device::store_pair(lines_at(to, args_.rank) + line, pair);
      }
    }
  }

  RONDO_FN void reduce(int /*slot*/, Piece piece, const Delivery& to) const {
    const std::uint64_t bytes = piece.count * kWidth;
    RONDO_NO_UNROLL
    for (std::uint64_t line = device::thread_index(); line < lines_of(bytes);
         line += device::thread_count()) {
      const std::uint64_t own = read_input(piece.at, line, bytes);
      std::uint64_t result = 0;
      if constexpr (wide) {
        if (!reduce_groups(line, own, &result)) return;
      } else {
        std::uint64_t operand[kLLPushAtOnce];
        if (!take(line, own, 0, operand)) return;
        result = combine(operand);
      }
      write_output(to.at, line, bytes, result);
    }
  }
  RONDO_FN void copy(int from, int /*slot*/, Piece piece, std::uint64_t at) const {
    const std::uint64_t bytes = piece.count * kWidth;
    RONDO_NO_UNROLL
    for (std::uint64_t line = device::thread_index(); line < lines_of(bytes);
         line += device::thread_count()) {
      const device::Pair* const place = lines_at(args_.rank, from) + line;
      device::Pair pair{};
      const auto come = [&] {
        pair = device::load_pair(place);
        return is_of_round(pair);
      };
      if (!wait_until(come, args_.control, call().record, awaited(from))) return;
      write_output(at, line, bytes, data_of(pair));
    }
  }
  RONDO_FN void copy_own(std::uint64_t from, std::uint64_t at, std::uint64_t count) const {
    const std::uint64_t bytes = count * kWidth;
    const std::uint64_t source = place_in(call().input, from), target = place_in(call().output, at);
    if (source == target) return;
    RONDO_NO_UNROLL
    for (std::uint64_t line = device::thread_index(); line < lines_of(bytes);
         line += device::thread_count())
      write_own<T>(target + line * kLineData, valid_of(line, bytes),
                   read_own<T>(source + line * kLineData, valid_of(line, bytes)));
  }
  RONDO_FN void copy_result(int /*from*/, int /*slot*/, Piece /*piece*/) const {}  // unused
  // Stores the round for the next call.
  RONDO_FN void release() const {
    device::barrier();
    if (!is_reporter()) return;
    device::store(args_.rounds + device::cta_index(), round_);
    const std::uint64_t number = read_word(kNumberAt);
    device::store(args_.launches + device::cta_index(), number);
    if (!cta_failed()) report_over(args_.control, channel(), number);
  }

 private:
  static RONDO_FN std::uint64_t lines_of(std::uint64_t bytes) {
    return (bytes + kLineData - 1) / kLineData;
  }
  static RONDO_FN unsigned valid_of(std::uint64_t line, std::uint64_t bytes) {
    const std::uint64_t rest = bytes - line * kLineData;
    return static_cast<unsigned>(rest < kLineData ? rest : kLineData);
  }
  // Before flags of 32 bits repeat, every line is given a new one.
  RONDO_FN std::uint64_t end_of(std::uint64_t lines) const {
    return round_ > kLLPushSlots && (round_ & 0x7fffffff) < kLLPushSlots ? kLLPushLines : lines;
  }
  RONDO_FN device::Pair* lines_at(int at, int from) const {
    const std::uint64_t slot = round_ % kLLPushSlots;
    const std::uint64_t senders = wide ? ll_push_senders(args_.ranks) : kLLPushAtOnce;
    const std::uint64_t block =
        (device::cta_index() * kLLPushSlots + slot) * senders + static_cast<unsigned>(from);
    std::byte* const staging = wide ? device::load(&args_.peers[at].lines) : args_.staging[at];
    return reinterpret_cast<device::Pair*>(staging) + block * kLLPushLines;
  }
  RONDO_FN bool is_of_round(device::Pair pair) const {
    const auto flag = static_cast<std::uint32_t>(round_);
    return pair.half[0] >> 32 == flag && pair.half[1] >> 32 == flag;
  }
  static RONDO_FN std::uint64_t data_of(device::Pair pair) {
    return (pair.half[0] & 0xffffffff) | pair.half[1] << 32;
  }
  RONDO_FN device::Pair pair_of(std::uint64_t data) const {
    const std::uint64_t flag = round_ << 32;
    return {{(data & 0xffffffff) | flag, data >> 32 | flag}};
  }
  RONDO_FN Awaited awaited(int from) const { return {channel(), from, round_, false}; }
  static RONDO_FN int channel() { return static_cast<int>(device::cta_index()); }

  // The reporting thread's words of shared memory, after those of waits: its LaunchCount, and
  // whether it has reported.
  static constexpr std::uint32_t kNumberAt = kWaitShared, kDigestAt = kWaitShared + 8,
                                 kArrivalsAt = kWaitShared + 16;
  static RONDO_FN std::uint64_t read_word(std::uint32_t at) {
    return device::load_shared<std::uint64_t>(at);
  }
  static RONDO_FN void write_word(std::uint32_t at, std::uint64_t value) {
    device::store_shared(at, value);
  }
  // The last thread: it has lines to move only if all threads have.
  static RONDO_FN bool is_reporter() {
    return device::thread_index() == device::thread_count() - 1;
  }
  // The same line of all ranks, group after group.
  RONDO_FN bool reduce_groups(std::uint64_t line, std::uint64_t own, std::uint64_t* result) const {
    typename Math::template Groups<kLLPushAtOnce> groups;
    int group = 0;
    RONDO_NO_UNROLL
    for (int first = 0; first < args_.ranks; first += kLLPushAtOnce, ++group) {
      std::uint64_t operand[kLLPushAtOnce];
      if (!take(line, own, first, operand)) return false;
      groups.add(group, size_of_group(first), operand);
    }
    *result = groups.result(math_, group);
    return true;
  }
  RONDO_FN int size_of_group(int first) const {
    return args_.ranks - first < kLLPushAtOnce ? args_.ranks - first : kLLPushAtOnce;
  }

  // Reads the same line of all peers, or of those of a group, from rank `first` on: all loads are
  // issued before any result is checked. One loop, without wait_until(), so that the operands stay
  // in registers.
  RONDO_FN bool take(std::uint64_t line, std::uint64_t own, int first,
                     std::uint64_t (&operand)[kLLPushAtOnce]) const {
    PollingWait wait;
    const device::Pair mine = pair_of(own);
    const device::Pair* const from_first = lines_at(args_.rank, first) + line;
    // In one register: one predicate per peer, kept from call to call, would be too many.
    const int ranks = wide ? size_of_group(first) : args_.ranks;
    unsigned peers = (1u << ranks) - 1;
    if (!wide || (args_.rank >= first && args_.rank < first + kLLPushAtOnce))
      peers &= ~(1u << (args_.rank - first));
    RONDO_NO_UNROLL
    for (unsigned turns = 1;; ++turns) {
      bool come = true;
      device::Pair pair[kLLPushAtOnce];
      RONDO_UNROLL
      for (int s = 0; s < kLLPushAtOnce; ++s) {
        pair[s] = mine;
        if ((device::opaque(peers) >> s & 1) != 0)
          pair[s] = device::load_pair(from_first + s * kLLPushLines);
      }
      RONDO_UNROLL
      for (int s = 0; s < kLLPushAtOnce; ++s) {
        operand[s] = data_of(pair[s]);
        come = come && is_of_round(pair[s]);
      }
      if (come) {
        wait.end();
        return true;
      }
      device::spin();
      if (turns % kTurnsBetweenLooks != 0) continue;
      int late = args_.rank;
      RONDO_UNROLL
      for (int s = 0; s < kLLPushAtOnce; ++s)
        if (!is_of_round(pair[s])) late = first + s;
      if (!wait.goes_on(args_.control, call().record, awaited(late))) return false;
    }
  }

  // Fields are read where they are needed: keeping all would take too many registers.
  RONDO_FN const LLPushArgs::Call& call() const {
    return args_.call[device::opaque(static_cast<unsigned>(number_))];
  }
  // The algorithm sees only this CTA's part of every block.
  RONDO_FN std::uint64_t place_in(const void* buffer, std::uint64_t at) const {
    const std::uint64_t block = call().count;
    std::uint64_t place = part_.begin;
    for (; at >= part_.count; at -= part_.count) place += block;  // at most once per rank
    return reinterpret_cast<std::uintptr_t>(buffer) + (place + at) * kWidth;
  }
  RONDO_FN std::uint64_t read_input(std::uint64_t at, std::uint64_t line,
                                    std::uint64_t bytes) const {
    const std::uint64_t data =
        read_own<T>(place_in(call().input, at) + line * kLineData, valid_of(line, bytes));
    if constexpr (Math::kScales) return math_.scale_own(data);
    return data;
  }
  RONDO_FN void write_output(std::uint64_t at, std::uint64_t line, std::uint64_t bytes,
                             std::uint64_t data) const {
    write_own<T>(place_in(call().output, at) + line * kLineData, valid_of(line, bytes), data);
  }

  RONDO_FN std::uint64_t combine(const std::uint64_t (&operand)[kLLPushAtOnce]) const {
    if constexpr (Math::kReduces)
      return math_.template combine_ranks<kLLPushAtOnce>(args_.ranks, operand);
    return 0;
  }

  const LLPushArgs& args_;
  const int number_;  // index of the call
  const Slice part_;
  const Math math_;
  std::uint64_t round_;
};

// wide: of more than kLLPushAtOnce ranks; then Math copies or has Groups.
template <class Math, bool wide = false>
struct LLPush {
  using Args = LLPushArgs;
  static constexpr int kThreads = Math::kHeavy ? kConnectedHeavyThreads : kConnectedThreads;
  static_assert(kThreads >= kLLPushThreads);
  static constexpr int kCtas = 1;

  static RONDO_FN void run(const Args& args) {
    const int cta = static_cast<int>(device::cta_index());
    Memory::begin();
    std::uint64_t round = device::load(args.rounds + cta);
    RONDO_NO_UNROLL
    for (int k = 0; k < args.calls; ++k) {
      const Args::Call& call = args.call[k];
      if (cta >= call.channels) continue;
      const Slice part = part_of({0, call.count}, cta, call.channels, args.grain);
      if (part.count == 0) continue;
      Memory memory(args, k, part, round);
      PushAlgorithm push{memory, {part.count, args.per_round, args.grain}};
      if constexpr (Math::kReduces) {
        run_algorithm(push, Algorithm::kOneShot, Collective::kAllReduce);
      } else {
        run_algorithm(push, Algorithm::kDirect, Collective::kAllGather);
      }
      round = memory.round();
      if (cta_failed()) return;
    }
  }

 private:
  using Memory = LLPushMemory<Math, wide>;
  struct PushAlgorithm {
    Memory& memory;
    Rounds rounds;

    static constexpr bool runs(const AlgorithmRow& row) {
      return row.verbs == Verbs::kPeerMemory && row.runs(Where::kGpu) &&
             reduces(row.collective) == Math::kReduces;
    }
  };
};

}  // namespace rondo::cuda
