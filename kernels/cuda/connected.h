// The kernels over connections: a CTA plays one channel of one rank, by the texts of
// kernels/algorithms, over Simple, LL or LL128.
//
// Connected<SumMath<type>> sums, Connected<AnyMath<type>> does every other reduction (all-reduce by
// ring and double tree, reduce-scatter, reduce); Connected<CopyMath> copies (all-gather,
// broadcast). A launch of several ranks of one device must be cooperative: they wait for each
// other. Guarantees: the order that the texts promise; any alignment; in place; no wait that
// outlives Control::abort by much. Cost: a group of threads costs two warps that move no data.
#pragma once

#include "kernels/algorithms/run_text.h"
#include "kernels/cuda/control_warp.h"
#include "kernels/cuda/launch_words.h"
#include "kernels/cuda/ll128_mover.h"
#include "kernels/cuda/ll_mover.h"
#include "kernels/cuda/signal_warp.h"

namespace rondo::cuda {

template <class Math, class Faults = NoFaults>
struct Connected {
  using Args = ConnectedArgs;
  static constexpr int kThreads = Math::kHeavy ? kConnectedHeavyThreads : kConnectedThreads;
  static constexpr int kCtas = 1;

  static RONDO_FN void run(const Args& args) {
    if (args.done != nullptr && device::load(args.done) != 0) return;
    const Play play{args, Group::of_thread(args)};
    DeviceEnd* const ends = play.station().ends + play.channel() * kChannelEnds +
                            static_cast<int>(args.protocol) * kDirections * kEnds;
    open(play, ends);
    device::barrier();
    if (device::warp_index() == kTeller) tell_hosts(play);
    if (play.slice().count > 0) {
      if (play.group.warp == 0) {
        Text text{{args},
                  {play.station().rank, args.ranks},
                  args.call.root,
                  {play.slice().count, args.per_round, args.grain}};
        run_text(text, args.algorithm, args.call.collective);
        write_last_job(play.group);
      } else if (play.group.warp == 1) {
        post_jobs<Faults>(play.group);
      } else {
        work(play);
      }
    }
    device::barrier();
    close(play, ends);
  }

 private:
  // The first signal warp's warp, which has nothing else to do at first.
  static constexpr unsigned kTeller = 1;

  // Ends and the channel's part, into shared memory.
  static RONDO_FN void open(Play play, const DeviceEnd* ends) {
    const auto* const words = reinterpret_cast<const std::uint64_t*>(ends);
    for (unsigned w = device::thread_index(); w < kDirections * kEnds * kEndWords;
         w += device::thread_count())
      write_word(kEndsAt + w, device::load(words + w));
    if (device::thread_index() == kTeller * device::kWarp) {
      const LaunchCount count = load_launches(play.station().launches, play.channel());
      write_word(kLaunchAt, count.number);
      write_word(kLaunchAt + 1, count.digest);
    }
    if (device::thread_index() != 0) return;
    const Slice part =
        part_of({0, play.args.count}, play.channel(), play.args.channels, play.args.grain);
    write_word(kSliceAt, part.begin);
    write_word(kSliceAt + 1, part.count);
    begin_waits();
    for (unsigned g = 0; g < kGroups; ++g) write_word(kNumbersAt + g, 0);
  }
  static RONDO_FN void tell_hosts(Play play) {
    if (device::lane_index() == 0)
      say_begun(play.station().control, play.channel(), play.args.call,
                {read_word(kLaunchAt), read_word(kLaunchAt + 1)}, play.station().launches);
    device::sync_warp();
  }

  // What the next launch must know, and that this one is over.
  static RONDO_FN void close(Play play, DeviceEnd* ends) {
    const unsigned index = device::thread_index();
    if (index == kTeller * device::kWarp) {
      const std::uint64_t number = read_word(kLaunchAt);
      device::store(play.station().launches + play.channel(), number);
      if (!cta_failed()) say_over(play.station().control, play.channel(), number);
    }
    if (index >= kDirections * kEnds) return;
    const EndAt end = end_at(static_cast<int>(index) / kEnds, static_cast<int>(index) % kEnds);
    if (end.slot_count() == 0) return;
    device::store(&ends[index].step, end.step());
    device::store(&ends[index].known, end.known());
    device::store(&ends[index].next_slot, static_cast<std::int32_t>(end.next_slot()));
  }

  struct Text {
    DeviceLinks<Math, Faults> links;
    RingView ring;
    int root;
    Rounds rounds;

    static constexpr bool runs(const AlgorithmRow& row) {
      return row.verbs == Verbs::kPrimitives && row.runs(Where::kGpu) &&
             reduces(row.collective) == Math::kReduces;
    }
  };

  static RONDO_FN void work(Play play) {
    const Math math = Math::of(play.args.call, play.args.ranks,
                               {play.station().scalar, play.station().late_scalar != 0});
    RONDO_NO_UNROLL
    for (std::uint64_t number = 0;; ++number) {
      play.group.begin_job();
      const JobPlaces job = JobPlaces::read(job_at(play.group.number, number));
      if ((job.how & kLast) == 0 && !cta_failed()) {
        const unsigned worker = play.group.worker(), workers = play.group.workers();
        const LineJob line{job, play.args, play.station(), play.channel(), worker, workers};
        if (play.args.protocol == Protocol::kLL) {
          LLMover<Math>{line, math}.run();
        } else if (play.args.protocol == Protocol::kLL128) {
          LL128Mover<Math>{line, math}.run();
        } else {
          SimpleMover<Math>{job, worker, workers, math}.run();
        }
      }
      play.group.end_job();
      if ((job.how & kLast) != 0) return;
    }
  }
};

}  // namespace rondo::cuda
