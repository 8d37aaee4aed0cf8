// SPDX-License-Identifier: Apache-2.0
// The kernels over connections. A CTA runs one channel of one rank with the algorithms of
// kernels/algorithms, over Simple, LL or LL128; calls of a list run one after another.
//
// Connected<SumMath<type>> sums. Connected<AnyMath<type>> does every other reduction (all-reduce by
// ring and double tree, reduce-scatter, reduce). Connected<CopyMath> copies (all-gather,
// broadcast). A launch for several ranks of one device must be cooperative, because the ranks wait
// for each other.
// Guarantees: the algorithms' reduction order; any alignment; in place; a wait ends soon after
// Control::abort is set; after a failed wait no later call of the list begins. The CTAs of a launch
// are not ordered, so calls of one list must not touch what another call writes.
// Cost: two warps of every thread group move no data. Each further call of a list costs a barrier,
// and the loads and stores with which a launch begins and ends.
#pragma once

#include "kernels/algorithms/run_algorithm.h"
#include "kernels/cuda/control_warp.h"
#include "kernels/cuda/launch_words.h"
#include "kernels/cuda/ll128_mover.h"
#include "kernels/cuda/ll_mover.h"
#include "kernels/cuda/signal_warp.h"

namespace rondo::cuda {

template <class Math>
struct Connected {
  using Args = ConnectedArgs;
  static constexpr int kThreads = Math::kHeavy ? kConnectedHeavyThreads : kConnectedThreads;
  static constexpr int kCtas = 1;

  static RONDO_FN void run(const Args& args) {
    if (device::thread_index() == 0) begin_waits();
    JobRing::begin(group_of_thread(args).workers());
    // Each kind of warp has its own loop over the list: registers that a common loop keeps for one
    // kind, it would keep for all.
    const unsigned warp = group_of_thread(args).warp;
    if (warp == 0) {
      control(args);
    } else if (warp == 1) {
      signal(args);
    } else {
      work(args);
    }
  }

 private:
  // Recomputed for every call: as a loop invariant it would stay in registers.
  static RONDO_FN Group group_of_thread(const Args& args) {
    return Group::of_thread(static_cast<unsigned>(device::opaque(args.groups)));
  }

  static constexpr std::uint64_t kGrain = kLineBytes / sizeof(typename Math::T);
  // The first signal warp, idle at first, reports to the hosts.
  static constexpr unsigned kReporter = 1;

  // Ends call k of the list (unless k is -1) and begins the next call that the CTA's channel takes
  // part in. Returns that call's number, or args.calls if there is none. Called by all threads.
  static RONDO_FN RONDO_NO_INLINE int next_call(const Args& args, int k) {
    const bool is_first = k < 0;
    const int channel = static_cast<int>(device::cta_index()) % args.channels;
    if (!is_first) {
      device::barrier();
      close();
    }
    ++k;
    RONDO_NO_UNROLL
    while (k < args.calls && channel >= args.call(k).channels) ++k;
    if (k == args.calls) return k;
    if (!is_first) {
      // What open() loads is stored by then, and nobody needs the words of the call before.
      device::barrier();
      if (cta_failed()) return args.calls;
    }
    open(args, k);
    device::barrier();
    return k;
  }

  static RONDO_FN void control(const Args& args) {
    RONDO_NO_UNROLL
    for (int k = next_call(args, -1); k < args.calls; k = next_call(args, CtaCall::number())) {
      const std::uint64_t count = part_of_cta().count;
      if (count == 0) continue;
      run_call(args, {count, CtaCall::per_round(), kGrain});
      JobRing{group_of_thread(args)}.publish_last();
    }
  }
  // Rings identify neighbours by rank number, trees by position.
  static RONDO_FN void run_call(const Args& args, const Rounds& rounds) {
    const RingOf<CtaCallOrder> ring{CtaCall::position(), args.ranks};
    if (CtaCall::algorithm() == Algorithm::kRing) {
      RingAlgorithm along{{args}, ring, CtaCall::root(), rounds};
      run_algorithm(along, Algorithm::kRing, CtaCall::collective());
    } else {
      TreeAlgorithm along{{args}, position_of(ring, CtaCall::root()), rounds};
      along.rounds.tree = CtaCall::tree();
      run_algorithm(along, Algorithm::kTree, CtaCall::collective());
    }
  }
  // The root's position. Any value for root -1 (none).
  static RONDO_FN int position_of(const RingOf<CtaCallOrder>& ring, int root) {
    return read_word(kOrderAt) == 0 ? root : ring.part(ring.behind(root));
  }
  static RONDO_FN void signal(const Args& args) {
    unsigned number = 0;
    RONDO_NO_UNROLL
    for (int k = next_call(args, -1); k < args.calls; k = next_call(args, CtaCall::number())) {
      const Group group = group_of_thread(args);
      if (group.number == 0) report_to_hosts();
      if (part_of_cta().count > 0 && device::lane_index() == 0)
        number = post_jobs(JobRing{group}, number, CtaCall::protocol() == Protocol::kSimple);
      device::sync_warp();
    }
  }

  // The ends of the protocol on a channel.
  static RONDO_FN DeviceEnd* ends_of(DeviceEnd* all, int channel, Protocol protocol) {
    return all + channel * kChannelEnds + static_cast<int>(protocol) * kDirections * kEnds;
  }
  static RONDO_FN void write_words(std::uint32_t at, const void* from, unsigned words) {
    const unsigned w = device::thread_index();
    if (w < words) write_word(at + w, static_cast<const std::uint64_t*>(from)[w]);
  }

  // Loads the call, its ends and the channel's part into shared memory.
  static RONDO_FN void open(const Args& args, int k) {
    const int cta = static_cast<int>(device::cta_index());
    const int s = cta / args.channels, channel = cta % args.channels;
    const unsigned me = device::thread_index();
    const Args::Station& station = args.station(s);
    const Args::Call& call = args.call(k);
    const auto* const words =
        reinterpret_cast<const std::uint64_t*>(ends_of(station.ends, channel, call.protocol));
    for (unsigned w = me; w < kDirections * kEnds * kEndWords; w += device::thread_count())
      write_word(kEndsAt + w, device::load(words + w));
    write_words(kCallAt, &call, kCallWords);
    write_words(kBuffersAt, &args.buffers(k, s), kBuffersWords);
    write_words(kStationAt, &station, kStationWords);
    if (me == kReporter * device::kWarp) {
      const LaunchCount count = load_launches(station.launches, channel);
      write_word(kLaunchAt, count.number);
      write_word(kLaunchAt + 1, count.digest);
    }
    if (me != 0) return;
    write_word(kNumberAt, static_cast<std::uint64_t>(k));
    write_word(kLateAt, args.is_late(k, s) ? 1 : 0);
    write_word(kChannelAt, static_cast<std::uint64_t>(channel));
    write_order(station, channel, args.ranks);
    const Slice part = part_of({0, call.count}, channel, call.channels, kGrain);
    write_word(kSliceAt, part.begin);
    write_word(kSliceAt + 1, part.count);
  }
  static RONDO_FN void write_order(const Args::Station& station, int channel, int ranks) {
    int position = station.rank;
    const std::int32_t* order = nullptr;
    if (station.orders != 0) {
      order = reinterpret_cast<const std::int32_t*>(
                  reinterpret_cast<const std::byte*>(station.ends) + station.orders) +
              static_cast<std::uint64_t>(channel) * order_words(ranks);
      position = device::load(order++);
    }
    write_word(kOrderAt, reinterpret_cast<std::uintptr_t>(order));
    write_word(kPositionAt, static_cast<std::uint64_t>(position));
  }
  static RONDO_FN void report_to_hosts() {
    if (device::lane_index() == 0)
      report_begun(CtaCall::control(), CtaCall::channel(), CtaCallRecord{},
                   {read_word(kLaunchAt), read_word(kLaunchAt + 1)}, CtaCall::launches());
    device::sync_warp();
  }

  // Stores the state that the next call needs, and reports the end of this call.
  static RONDO_FN void close() {
    const unsigned index = device::thread_index();
    if (index == kReporter * device::kWarp) {
      const std::uint64_t number = read_word(kLaunchAt);
      device::store(CtaCall::launches() + CtaCall::channel(), number);
      if (!cta_failed()) report_over(CtaCall::control(), CtaCall::channel(), number);
    }
    if (index >= kDirections * kEnds) return;
    const EndAt end = end_at(static_cast<int>(index) / kEnds, static_cast<int>(index) % kEnds);
    if (end.slot_count() == 0) return;
    DeviceEnd* const to = ends_of(CtaCall::ends(), CtaCall::channel(), CtaCall::protocol()) + index;
    device::store(&to->step, end.step());
    device::store(&to->known, end.known());
    device::store(&to->next_slot, static_cast<std::int32_t>(end.next_slot()));
  }

  static constexpr bool is_of(const AlgorithmRow& row, Algorithm algorithm) {
    return row.algorithm == algorithm && row.verbs == Verbs::kPrimitives && row.runs(Where::kGpu) &&
           reduces(row.collective) == Math::kReduces;
  }
  struct RingAlgorithm {
    DeviceLinks<Math, Speak::kNumbers> links;
    RingOf<CtaCallOrder> ring;
    int root;
    Rounds rounds;

    static constexpr bool runs(const AlgorithmRow& row) { return is_of(row, Algorithm::kRing); }
  };
  struct TreeAlgorithm {
    DeviceLinks<Math, Speak::kPositions> links;
    int root;  // the root's position
    Rounds rounds;

    static constexpr bool runs(const AlgorithmRow& row) { return is_of(row, Algorithm::kTree); }
  };

  static RONDO_FN void work(const Args& args) {
    unsigned number = 0;
    RONDO_NO_UNROLL
    for (int k = next_call(args, -1); k < args.calls; k = next_call(args, CtaCall::number()))
      if (part_of_cta().count > 0) number = do_jobs(args, JobRing{group_of_thread(args)}, number);
  }
  // Runs jobs up to the last one of the call. Returns the number of the job after it.
  static RONDO_FN unsigned do_jobs(const Args& args, const JobRing& ring, unsigned number) {
    const CallRecord record{.type = CtaCall::type(), .op = CtaCall::op()};  // the only fields used
    const Math math = Math::of(record, args.ranks, {CtaCall::scalar(), CtaCall::is_late()});
    RONDO_NO_UNROLL
    for (;; ++number) {
      const JobOperands job = JobOperands::read(ring.wait_for(number));
      if ((job.how & kLast) == 0 && !cta_failed()) {
        const unsigned worker = ring.group.worker(), workers = ring.group.workers();
        const LineJob line{job, worker, workers};
        const Protocol protocol = CtaCall::protocol();
        if (protocol == Protocol::kLL) {
          LLMover<Math>{line, math}.run();
        } else if (protocol == Protocol::kLL128) {
          LL128Mover<Math>{line, math}.run();
        } else {
          SimpleMover<Math>{job, worker, workers, math}.run();
        }
      }
      ring.finish(number);
      if ((job.how & kLast) != 0) return number + 1;
    }
  }
};

}  // namespace rondo::cuda
