// The agree kernel: ranks of several processes find out whether all of them have mapped each
// other's buffers of a call, and meet. If so, the direct kernel that is launched behind it does the
// call in place; what is launched behind that, to do it otherwise, ends at once.
//
// Each rank tells each other where that one sees its buffers: no address is looked up on a device,
// and captured launches tell the same in every replay. One small CTA: a thread a rank tells and
// hears, then one writes the direct kernel's arguments (resolve.h). Guarantees: all ranks decide
// alike, since all hear the same; no direct kernel touches a buffer before all ranks have come
// here; a launch that was told to end leaves nothing to do. Words are overwritten two barriers
// later, when all have read them. Cost: a launch, a barrier of all devices, and a read of what the
// others told.
#pragma once

#include "kernels/cuda/device_barrier.h"
#include "kernels/cuda/resolve.h"

namespace rondo::cuda {

struct Agree {
  using Args = AgreeArgs;
  static constexpr int kThreads = kMaxDirectRanks;
  static constexpr int kCtas = 1;

  static RONDO_FN void run(const Args& args) {
    const DeviceBarrier& barrier = args.barrier;
    const auto rank = static_cast<int>(device::thread_index());
    const bool is_rank = rank < barrier.devices;
    const std::uint64_t turn = device::load(barrier.barriers) % 2;
    if (is_rank) tell(&args.words[rank]->said[turn][barrier.place], args.says[rank]);
    const bool met = barrier_once(barrier);
    InPlaceWords* const own = args.words[barrier.place];
    if (is_rank) hear(rank, own->said[turn][rank]);
    device::barrier();
    if (rank == 0) decide(args, met, own);
  }

 private:
  static RONDO_FN void tell(InPlaceWords::Answer* to, const InPlaceWords::Answer& what) {
    device::store(&to->send, what.send);
    device::store(&to->receive, what.receive);
    device::store(&to->mapped, what.mapped);
  }
  static RONDO_FN void hear(int rank, const InPlaceWords::Answer& said) {
    const std::uint32_t at = Resolve::place_of(rank);
    device::store_shared(at + Resolve::kSend, device::load(&said.send));
    device::store_shared(at + Resolve::kReceive, device::load(&said.receive));
    device::store_shared(at + Resolve::kFlags, 0u);
    device::store_shared(at + Resolve::kWrong, device::load(&said.mapped) != 1 ? 1u : 0u);
  }
  static RONDO_FN void decide(const Args& args, bool met, InPlaceWords* own) {
    const Resolve resolve{args.call};
    bool all = met;
    RONDO_NO_UNROLL
    for (int r = 0; r < args.barrier.devices && all; ++r)
      all = resolve.bits(r, Resolve::kWrong) == 0;
    resolve.write_arguments(!all, {-1, 0, args.call.record.count}, 0,
                            all ? &args.barrier : nullptr);
    device::store(&own->done, static_cast<std::uint64_t>(all || !met ? 1 : 0));
  }
};

}  // namespace rondo::cuda
