// SPDX-License-Identifier: Apache-2.0
// The resolve kernel: writes the arguments of a direct kernel from the ranks' descriptors.
//
// One small CTA. One thread per rank fetches the descriptors (from distant host memory) in
// parallel; then one thread writes the arguments. If no rank is staged, the call's first step does
// all the work and the other steps nothing. Guarantees: touches no buffer; after an abort, or with
// a descriptor of another call, the arguments move nothing. Cost: one launch, and two rounds of
// host memory reads of about a microsecond each: the descriptor's index, then its contents. All
// reads of a round are issued before the first is used.
#pragma once

#include "kernels/cuda/device.h"
#include "kernels/cuda/shared_args.h"

namespace rondo::cuda {

struct Resolve {
  using Args = ResolveArgs;
  static constexpr int kThreads = kMaxDirectRanks;
  static constexpr int kCtas = 1;
  // A rank's descriptor in shared memory; after all ranks', the words of the device.
  enum : std::uint32_t { kSend = 0, kReceive = 8, kScalar = 16, kFlags = 24, kWrong = 28 };
  enum : std::uint32_t { kStaging = 0, kHeartbeat = 8, kAborted = 16 };
  static constexpr std::uint32_t kSharedBytes = 32;
  static constexpr std::uint32_t kWordsAt = kWaitShared + kMaxDirectRanks * kSharedBytes;
  static RONDO_FN std::uint32_t place_of(int rank) {
    return kWaitShared + static_cast<std::uint32_t>(rank) * kSharedBytes;
  }
  static_assert(kResolveShared == kWordsAt + kSharedBytes);

  static RONDO_FN void run(const Args& args) {
    const auto rank = static_cast<int>(device::thread_index());
    const std::uint64_t sequence = rank < args.ranks ? fetch(args, rank) : 0;
    device::barrier();
    if (rank != 0) return;
    // Only after the barrier: a consumed descriptor may be overwritten, and other ranks' threads
    // may be slower.
    if (args.last && sequence != 0)
      device::store_relaxed<device::Scope::kSystem>(&args.words->consumed, sequence);
    Resolve{args}.write();
  }

  // Returns the call's number.
  static RONDO_FN std::uint64_t fetch(const Args& args, int rank) {
    const std::uint32_t given = word(&args.call_slots[rank].descriptor);
    const std::uint32_t aborted = word(&args.words->aborted);
    const std::uint64_t staging = word(&args.words->staging[static_cast<int>(args.staging_place)]);
    const std::uint64_t heartbeat = word(&args.words->heartbeat);
    const CallDescriptor* from =
        args.descriptors + static_cast<std::uint64_t>(rank) * args.depth + given % args.depth;
    const auto* words = reinterpret_cast<const std::uint64_t*>(&from->record);
    const std::uint64_t record[2] = {word(words), word(words + 1)};
    const std::uint64_t send = word(&from->send), receive = word(&from->receive);
    const std::uint64_t scalar = word(&from->scalar), sequence = word(&from->sequence);
    const std::uint32_t flags = word(&from->flags);
    const auto* wanted = reinterpret_cast<const std::uint64_t*>(&args.record);
    const bool same = record[0] == wanted[0] && record[1] == wanted[1];
    const std::uint32_t at = place_of(rank);
    device::store_shared(at + kSend, send);
    device::store_shared(at + kReceive, receive);
    device::store_shared(at + kScalar, scalar);
    device::store_shared(at + kFlags, flags);
    device::store_shared(at + kWrong, same ? 0u : 1u);
    if (rank != 0) return sequence;
    device::store_shared(kWordsAt + kStaging, staging);
    device::store_shared(kWordsAt + kHeartbeat, heartbeat);
    device::store_shared(kWordsAt + kAborted, aborted);
    return sequence;
  }
  template <class T>
  static RONDO_FN T word(const T* from) {
    return device::load_relaxed<device::Scope::kSystem>(from);
  }

  const Args& args;

  RONDO_FN std::uint64_t of(int rank, std::uint32_t field) const {
    return device::load_shared<std::uint64_t>(place_of(rank) + field);
  }
  RONDO_FN std::uint32_t bits(int rank, std::uint32_t field) const {
    return device::load_shared<std::uint32_t>(place_of(rank) + field);
  }
  RONDO_FN bool staged(int rank, std::uint32_t flag) const {
    return (bits(rank, kFlags) & flag) != 0;
  }

  RONDO_FN void write() const {
    DeviceWords* words = args.words;
    bool nothing = device::load_shared<std::uint32_t>(kWordsAt + kAborted) != 0;
    bool all_mapped = true;
    RONDO_NO_UNROLL
    for (int r = 0; r < args.ranks; ++r) {
      all_mapped =
          all_mapped && !staged(r, CallDescriptor::kSendStaged | CallDescriptor::kReceiveStaged);
      if (bits(r, kWrong) == 0) continue;
      nothing = true;
      device::store_relaxed<device::Scope::kSystem>(&words->mismatch,
                                                    static_cast<std::uint32_t>(r) + 1);
    }
    CallStep step = args.step;
    if (all_mapped) step = {-1, 0, args.record.count};
    nothing = nothing || (all_mapped && args.number > 0);
    const auto staging = device::load_shared<std::uint64_t>(kWordsAt + kStaging);
    if (args.reduces)
      write_reduce(nothing, step, staging);
    else
      write_copies(nothing, step, staging);
    device::store_relaxed<device::Scope::kSystem>(
        &words->heartbeat, device::load_shared<std::uint64_t>(kWordsAt + kHeartbeat) + 1);
  }

  // Address of segment `segment` of the step on a rank's side.
  RONDO_FN std::uint64_t input(int rank, const CallStep& step, std::uint64_t staging,
                               std::int64_t segment) const {
    const auto width = static_cast<std::uint64_t>(args.width);
    if (staged(rank, CallDescriptor::kSendStaged))
      return staging + args.staging.input(rank, args.number) +
             (step.segment < 0 ? segment * step.count * width : 0);
    return of(rank, kSend) + (segment * args.record.count + step.begin) * width;
  }
  RONDO_FN std::uint64_t output(int rank, const CallStep& step, std::uint64_t staging,
                                std::int64_t segment) const {
    const auto width = static_cast<std::uint64_t>(args.width);
    if (staged(rank, CallDescriptor::kReceiveStaged))
      return staging +
             args.staging.output(output_is_shared(args.record.collective) ? 0 : rank, args.number) +
             segment * step.count * width;
    return of(rank, kReceive) + (segment * args.record.count + step.begin) * width;
  }

  // ---- arguments of a reduction ----

  RONDO_FN void write_reduce(bool nothing, const CallStep& step, std::uint64_t staging) const {
    auto* out = static_cast<ReduceArgs*>(args.arguments);
    const bool scatters = args.record.collective == Collective::kReduceScatter;
    const bool scattered = scatters && step.segment < 0;
    const std::int64_t segment = step.segment < 0 ? 0 : step.segment;
    device::store(&out->count[0], nothing ? std::uint64_t{0} : step.count);
    device::store(&out->sources, args.ranks);
    device::store(&out->ranks, args.ranks);
    device::store(&out->segments, scattered ? args.ranks : 1);
    device::store(reinterpret_cast<std::uint8_t*>(&out->scattered),
                  static_cast<std::uint8_t>(scattered ? 1 : 0));
    device::store(reinterpret_cast<std::uint8_t*>(&out->op),
                  static_cast<std::uint8_t>(args.record.op));
    device::store(reinterpret_cast<std::uint8_t*>(&out->is_signed),
                  static_cast<std::uint8_t>(args.is_signed ? 1 : 0));
    std::uint64_t late = 0;
    int targets = 0;
    bool shared = false;
    const bool all = output_is_shared(args.record.collective) || scattered;
    const int only = scatters ? static_cast<int>(segment) : args.record.root;
    RONDO_NO_UNROLL
    for (int r = 0; r < args.ranks; ++r) {
      put(&out->input[r], input(r, step, staging, segment));
      device::store(&out->scalar[r], of(r, kScalar));
      if (staged(r, CallDescriptor::kLateScalar)) late |= std::uint64_t{1} << r;
      if (!all && r != only) continue;
      const bool to_shared =
          output_is_shared(args.record.collective) && staged(r, CallDescriptor::kReceiveStaged);
      if (to_shared && shared) continue;
      shared = shared || to_shared;
      put(&out->output[targets++], output(r, step, staging, 0));
    }
    device::store(&out->late_scalars, late);
    device::store(&out->targets, targets);
  }

  template <class T>
  static RONDO_FN void put(T* at, std::uint64_t address) {
    device::store(reinterpret_cast<std::uint64_t*>(at), address);
  }

  // ---- arguments of copies ----

  RONDO_FN void write_copies(bool nothing, const CallStep& step, std::uint64_t staging) const {
    auto* out = static_cast<CopyArgs*>(args.arguments);
    const std::uint64_t bytes = step.count * static_cast<std::uint64_t>(args.width);
    int items = 0, targets = 0;
    const Collective which = args.record.collective;
    const int root = args.record.root;
    RONDO_NO_UNROLL
    for (int s = args.first_source; s < args.end_source && !nothing && bytes > 0; ++s) {
      switch (which) {
        case Collective::kBroadcast:
          if (s == root) spread(out, s, step, staging, 0, &items, &targets);
          break;
        case Collective::kAllGather:
          spread(out, s, step, staging, s, &items, &targets);
          break;
        case Collective::kGather:
          add(out, input(s, step, staging, 0), output(root, step, staging, s), bytes, &items,
              &targets);
          break;
        case Collective::kScatter:
          add(out, input(root, step, staging, s), output(s, step, staging, 0), bytes, &items,
              &targets);
          break;
        default:
          RONDO_NO_UNROLL
          for (int t = 0; t < args.ranks; ++t)
            add(out, input(s, step, staging, t), output(t, step, staging, s), bytes, &items,
                &targets);
          break;
      }
    }
    if (items == 0) begin_item(out, 0, 0, 0, 0, &items);  // the kernel requires at least one item
    device::store(&out->items, items);
    device::store(&out->all_targets, targets);
  }

  static RONDO_FN void begin_item(CopyArgs* out, std::uint64_t from, std::uint64_t bytes,
                                  int first_target, int targets, int* items) {
    CopyArgs::Item* item = &out->item[(*items)++];
    put(&item->from, from);
    device::store(&item->bytes, bytes);
    device::store(&item->first_target, static_cast<std::uint32_t>(first_target));
    device::store(&item->targets, static_cast<std::uint32_t>(targets));
  }

  RONDO_FN void add(CopyArgs* out, std::uint64_t from, std::uint64_t to, std::uint64_t bytes,
                    int* items, int* targets) const {
    if (from == to) return;
    begin_item(out, from, bytes, *targets, 1, items);
    put(&out->target[(*targets)++], to);
  }

  // Copies the source's segment to segment `place` of every output.
  RONDO_FN void spread(CopyArgs* out, int source, const CallStep& step, std::uint64_t staging,
                       std::int64_t place, int* items, int* targets) const {
    const std::uint64_t from = input(source, step, staging, 0);
    const int first = *targets;
    bool shared = false;
    RONDO_NO_UNROLL
    for (int t = 0; t < args.ranks; ++t) {
      const bool to_shared = staged(t, CallDescriptor::kReceiveStaged);
      const std::uint64_t to = output(t, step, staging, place);
      if ((to_shared && shared) || to == from) continue;
      shared = shared || to_shared;
      put(&out->target[(*targets)++], to);
    }
    if (*targets == first) return;
    begin_item(out, from, step.count * static_cast<std::uint64_t>(args.width), first,
               *targets - first, items);
  }
};

}  // namespace rondo::cuda
