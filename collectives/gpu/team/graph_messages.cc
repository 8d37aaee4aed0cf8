#include "collectives/gpu/team/graph_messages.h"

#include <algorithm>
#include <vector>

#include "collectives/gpu/launch/direct_launches.h"
#include "transport/cuda/device.h"
#include "transport/cuda/streams.h"

namespace rondo::gpu {

bool is_between_graphs(const MatchedMessage& message) {
  const GpuCaptureInfo &send = message.send.capture, &receive = message.receive.capture;
  return capturing(send) && capturing(receive) && !same_capture(send, receive);
}

bool GraphMessages::can(const Pair& pair, std::span<const PostedCall> calls) const {
  const auto is_alone = [this](int rank) { return team_.devices.of(rank).ranks.size() == 1; };
  const bool own_streams = std::none_of(calls.begin(), calls.end(), [](const PostedCall& one) {
    return is_default_stream(
        one.call.stream);  // its handle names the stream of the launching thread
  });
  return is_alone(pair.first) && is_alone(pair.second) && own_streams &&
         team_.connections.connections() != nullptr && !by_engines(calls) &&
         team_.kernels_reach(calls);
}

Result<const DeviceBarriers*> GraphMessages::words_of(const Pair& pair) {
  std::unique_ptr<DeviceBarriers>& words = words_[pair];
  if (words) return words.get();
  const RelaxedCapture relaxed;
  RONDO_TRY(words, DeviceBarriers::make({team_.devices.of(pair.first).device,
                                         team_.devices.of(pair.second).device}));
  return words.get();
}

Status GraphMessages::launch(std::span<const MatchedMessage> messages) {
  const MatchedMessage& first = messages.front();
  const Pair pair = std::minmax({first.from, first.to});
  std::vector<PostedCall> all, own[2];  // by place
  for (const MatchedMessage& message : messages) {
    all.insert(all.end(), {message.send, message.receive});
    own[message.from == pair.first ? 0 : 1].push_back(message.send);
    own[message.to == pair.first ? 0 : 1].push_back(message.receive);
  }
  if (!can(pair, all)) return unlike_captures();
  RONDO_TRY(const DeviceBarriers* const words, words_of(pair));
  int maximum = team_.options.max_ctas;
  for (const PostedCall& one : all) maximum = std::min(maximum, max_ctas_of(one.call));
  for (const int rank : {pair.first, pair.second})
    maximum = std::min(maximum, team_.devices.of(rank).max_ctas);
  constexpr auto kMessages = StreamOrder::Kind::kMessages;
  for (const int rank : {pair.first, pair.second}) {
    const int place = rank == pair.first ? 0 : 1;
    const PostedCall& on = own[place].front();
    const LaunchPosition site = team_.site_of(rank, {on.call.stream, on.ready, on.capture});
    const DeviceScope scope(team_.devices.of(rank).device);
    RONDO_CHECK_OK(scope.entered());
    RONDO_CHECK_OK(team_.begin_launch(site, own[place], set_of(rank), kMessages));
    cuda::DeviceBarrier barrier = words->barrier(place);
    barrier.control = team_.connections.connections()->control(rank);
    barrier.call = first.send.call.record;
    barrier.rank[0] = pair.first;
    barrier.rank[1] = pair.second;
    DirectLaunches launches(*gpu_api(), maximum, site.stream);
    launches.meet(barrier);
    for (const MatchedMessage& message : messages) {
      const CallRecord& record = message.send.call.record;
      RONDO_CHECK_OK(launches.copy(message.send.call.send, message.receive.call.receive,
                                   record.count * size_of(record.type)));
    }
    RONDO_CHECK_OK(launches.flush());
    RONDO_CHECK_OK(team_.order.end(site, set_of(rank), kMessages));
  }
  return ok_status();
}

}  // namespace rondo::gpu
