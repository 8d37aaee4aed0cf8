#include "kernels/sim/sim_links.h"

#include <array>

namespace rondo::sim {

SimConnection* SimLinks::connection(int from, int to, int lane) {
  return &run_.connections.between(from, to, lane, [&] {
    const auto rank = [&](int position) {
      return run_.stream.order[static_cast<std::size_t>(position)];
    };
    return run_.machine.routes(rank(from), rank(to), run_.number);
  });
}

void SimLinks::move(const Chunk& chunk, Peers from, Peers to, int lane, Work work) {
  if (chunk.count == 0) return;  // no message
  std::array<SimConnection*, 2> ins{}, outs{};
  std::size_t in = 0, out = 0;
  for (const int peer : {from.first, from.second})
    if (peer >= 0) ins[in++] = connection(peer, position_, lane);
  for (const int peer : {to.first, to.second})
    if (peer >= 0) outs[out++] = connection(position_, peer, lane);
  const std::uint64_t bytes = chunk.count * run_.element_bytes;
  for (std::uint64_t at = 0; at < bytes; at += run_.stream.slot_bytes) {
    const std::uint64_t rest = std::min(bytes - at, run_.stream.slot_bytes);
    move_slot(static_cast<double>(rest), {ins.data(), in}, {outs.data(), out}, work);
  }
}

void SimLinks::move_slot(double bytes, std::span<SimConnection* const> from,
                         std::span<SimConnection* const> to, Work work) {
  const double rate =
      (work == kSums ? run_.cost.sum_gbs : run_.cost.copy_gbs) * run_.stream.ctas * workers_;
  const double work_ns = run_.cost.fixed_ns + (rate > 0 ? bytes / rate : 0);
  pass_slot(run_.time, bytes * run_.cost.wire_bytes, work_ns, from, to);
}

}  // namespace rondo::sim
