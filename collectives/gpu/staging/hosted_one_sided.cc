// Puts, signals and waits for signals of ranks on GPUs: the stream copies, the rank's thread passes
// the signals.
#include <algorithm>

#include "base/gpu.h"
#include "collectives/gpu/launch/direct_launches.h"
#include "collectives/gpu/staging/hosted_rank.h"
#include "transport/cuda/streams.h"

namespace rondo::gpu {

bool same_signals(const std::vector<Call>& some, const std::vector<Call>& others) {
  return std::equal(some.begin(), some.end(), others.begin(), others.end(),
                    [](const Call& a, const Call& b) {
                      return a.record == b.record && a.peer == b.peer && a.signal == b.signal;
                    });
}

Done HostedRank::run_signals(const Descriptor& call, std::uint64_t step) {
  const bool first = step == 0 && !call.signals.empty();
  return twin_->run(first ? call.signals : call.waits);
}

// One step copies and signals; the second one, where there is anything to wait for, waits.
Done HostedRank::post_one_sided(std::span<const DeviceCall> calls) {
  Descriptor descriptor;
  const GpuStream stream = calls[0].stream;
  std::vector<GpuStream> others;
  for (const DeviceCall& call : calls) {
    if (!same_stream(call.stream, stream)) others.push_back(call.stream);
    const bool waits = call.record.collective == Collective::kWaitSignal;
    Call& one = (waits ? descriptor.waits : descriptor.signals).emplace_back();
    one.record.collective = waits ? Collective::kWaitSignal : Collective::kSignal;
    one.record.count = waits ? call.record.count : 0;
    one.peer = call.peer;
    one.signal = call.signal;
  }
  const std::vector<DeviceCall> kept(calls.begin(), calls.end());
  const auto copy = [&](std::uint64_t step, bool in) -> Done {
    if (!in || step > 0) return done();
    DirectLaunches launches(api_, 1, stream);
    launches.copy_by_driver();
    for (const DeviceCall& call : kept)
      if (call.target != nullptr)
        RONDO_CHECK_OK(launches.copy(call.side.send, call.target,
                                     call.record.count * size_of(call.record.type)));
    return launches.flush();
  };
  RONDO_CHECK_OK(join_before(stream, others));
  const std::uint64_t steps = descriptor.signal_steps();
  RONDO_CHECK_OK(enqueue(stream, std::move(descriptor), steps, copy));
  return join_after(others);
}

}  // namespace rondo::gpu
