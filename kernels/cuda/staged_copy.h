// SPDX-License-Identifier: Apache-2.0
// Staged copies: copying collectives between devices of several processes whose buffers other
// devices do not reach. One launch per device copies the rank's blocks into staging that all reach,
// has a barrier, copies what the rank receives directly into its buffer, and has a second barrier.
//
// A broadcast takes two steps, so that its root does not send everything to every rank: each device
// forwards a share of the root's block to the staging of all, and the block is copied out after the
// second barrier. Guarantees: those of staged_parts.h; a rank's block to itself does not pass
// through staging. Cost: a read and a write of what a rank sends and of what it receives, and once
// more of a broadcast's block.
#pragma once

#include "kernels/cuda/device_barrier.h"
#include "kernels/cuda/staged_parts.h"

namespace rondo::cuda {

struct StagedCopy {
  using Args = StagedCopyArgs;
  static constexpr int kThreads = kDirectThreads;
  static constexpr int kCtas = kDirectCtas;

  static RONDO_FN void run(const Args& args) {
    meet_for_each(args.barrier, args.listed, static_cast<int>(args.calls), Calls{args});
  }

 private:
  // One call, and the CTA's part of its blocks.
  struct Call {
    RONDO_FN Call(const Args& args, int k)
        : which(args.listed[k].record.collective),
          root(args.listed[k].record.root),
          own(args.staged[k]),
          block(args.bytes[k]),
          part(part_of_cta(block, own.part)),
          slice(device::cta_index() * args.slice) {}

    RONDO_FN bool broadcasts() const { return which == Collective::kBroadcast; }
    // True if there is one block for each rank; else one block for all.
    RONDO_FN bool deals() const {
      return which == Collective::kScatter || which == Collective::kAllToAll;
    }
    RONDO_FN bool gathers() const {
      return which != Collective::kBroadcast && which != Collective::kScatter;
    }
    RONDO_FN const std::byte* send() const {
      return static_cast<const std::byte*>(own.send) + part.begin;
    }
    RONDO_FN std::byte* receive() const {
      return static_cast<std::byte*>(own.receive) + part.begin;
    }

    Collective which;
    int root;
    const StagedCall& own;
    std::uint64_t block;
    Part part;
    std::uint64_t slice;
  };

  struct Calls {
    const Args& args;

    RONDO_FN void bring_in(int k, Crew crew) const {
      const Call call(args, k);
      if (call.part.count == 0 || call.own.send == nullptr) return;
      copy_parts(call.send(), call.block, input_of(args.barrier.place) + call.slice, call.own.part,
                 call.deals() ? args.barrier.devices : 1, call.part.count, crew.threads);
    }
    RONDO_FN void work(int k, Crew crew) const {
      const Call call(args, k);
      if (call.part.count == 0) return;
      if (call.broadcasts()) return pass_on(call, crew);
      if (call.own.receive != nullptr) fetch(call, crew);
    }
    RONDO_FN void take_out(int k, Crew crew) const {
      const Call call(args, k);
      const int place = args.barrier.place;
      if (!call.broadcasts() || call.part.count == 0) return;
      copy_parts(place == call.root ? call.send() : output_of(place) + call.slice, 0,
                 call.receive(), 0, 1, call.part.count, crew.threads);
    }

   private:
    RONDO_FN bool has_table() const { return args.barrier.devices > kArgumentDevices; }
    RONDO_FN std::byte* input_of(int rank) const {
      return has_table() ? device::load(&args.barrier.peers[rank].input) : args.input[rank];
    }
    RONDO_FN std::byte* output_of(int rank) const {
      return has_table() ? device::load(&args.barrier.peers[rank].output) : args.output[rank];
    }
    RONDO_FN void pass_on(const Call& call, Crew crew) const {
      const auto devices = static_cast<std::uint64_t>(args.barrier.devices);
      const auto place = static_cast<std::uint64_t>(args.barrier.place);
      const std::uint64_t threads = crew.threads;
      copy_bytes(input_of(call.root) + call.slice, call.part.count,
                 static_cast<unsigned>(args.barrier.devices - 1),
                 [&](unsigned t) {
                   const unsigned to = t < static_cast<unsigned>(call.root) ? t : t + 1;
                   return output_of(static_cast<int>(to)) + call.slice;
                 },
                 {threads * place + device::thread_index(), threads * devices});
    }
    // Copies block after block from the ranks that sent them; warps begin with different ones.
    RONDO_FN void fetch(const Call& call, Crew crew) const {
      const int place = args.barrier.place;
      const int blocks = call.gathers() ? args.barrier.devices : 1;
      const BlockDeal deal = deal_warps(blocks, crew.threads);
      RONDO_NO_UNROLL
      for (int b = deal.block; b < blocks; b += deal.step) {
        const int from = call.gathers() ? b : call.root;
        const auto dealt = static_cast<unsigned>(call.deals() ? place : 0);
        const std::byte* const source = from == place
                                            ? call.send() + dealt * call.block
                                            : input_of(from) + call.slice + dealt * call.own.part;
        std::byte* const to = call.receive() + static_cast<unsigned>(b) * call.block;
        if (source == to) continue;
        copy_bytes(
            source, call.part.count, 1, [&](unsigned) { return to; }, deal.share);
      }
    }
  };
};

}  // namespace rondo::cuda
