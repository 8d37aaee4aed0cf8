// SPDX-License-Identifier: Apache-2.0
// Whether grids whose CTAs wait for each other run at once, and the cost of a cooperative launch.
#include <vector>

#include "asks.h"
#include "bounded.h"

namespace probe {
namespace {

// Every CTA of all grids arrives and waits for all others. late: number of CTAs that gave up.
__global__ void rendezvous(std::uint32_t* come, std::uint32_t all, std::uint32_t* late,
                           std::uint64_t ns) {
  if (threadIdx.x != 0) return;
  const std::uint64_t end = gpu::timer_ns() + ns;
  gpu::add_relaxed<Scope::kDevice>(come, 1u);
  if (!wait_for(come, all, end)) gpu::add_relaxed<Scope::kDevice>(late, 1u);
}

struct Case {
  const char* name;
  unsigned ctas[2], threads;
  bool cooperative[2];
  std::size_t shared[2];
  bool in_graph;  // the first grid
};

// Number of CTAs that did not see all others arrive.
std::uint32_t late_of(const Case& one, cudaStream_t (&stream)[2]) {
  auto* const words = new_device<std::uint32_t>(64);
  const std::uint32_t all = one.ctas[0] + one.ctas[1];
  const auto start = [&](int which) {
    const Launch how{one.ctas[which], one.threads, one.shared[which], stream[which],
                     one.cooperative[which]};
    PROBE(launch(how, rendezvous, words, all, words + 32, 60 * kMillisecond));
  };
  if (one.in_graph) {
    PROBE(cudaGraphLaunch(captured(stream[0], [&] { start(0); }), stream[0]));
  } else {
    start(0);
  }
  start(1);
  PROBE(cudaDeviceSynchronize());
  std::uint32_t late = 0;
  PROBE(cudaMemcpy(&late, words + 32, sizeof(late), cudaMemcpyDefault));
  PROBE(cudaFree(words));
  return late;
}

// Microseconds per launch: of the calls alone, and until all launches have run.
void time_launches(const char* name, bool cooperative, unsigned ctas, unsigned threads) {
  constexpr int kLaunches = 400;
  const cudaStream_t stream = new_stream();
  const Launch how{ctas, threads, 0, stream, cooperative};
  for (int warm = 0; warm < 2; ++warm) {
    const double begin = now_seconds();
    for (int i = 0; i < kLaunches; ++i) PROBE(launch(how, nothing));
    const double called = since_us(begin) / kLaunches;
    PROBE(cudaStreamSynchronize(stream));
    if (warm == 0) continue;
    put(std::string(name) + "_call", called, "us");
    put(std::string(name) + "_total", since_us(begin) / kLaunches, "us");
  }
}

// Launches that alternate between two streams, joined by events as with two communicators.
void time_turns(const char* name, bool cooperative) {
  constexpr int kTurns = 200;
  const cudaStream_t stream[2] = {new_stream(), new_stream()};
  const double begin = now_seconds();
  for (int i = 0; i < kTurns; ++i) PROBE(launch({16, 512, 0, stream[i % 2], cooperative}, nothing));
  PROBE(cudaDeviceSynchronize());
  put(name, since_us(begin) / kTurns, "us a launch");
}

}  // namespace

void ask_cooperative() {
  if (attribute(CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH) != 1)
    unsupported("the device has no cooperative launches");
  const unsigned sms = multiprocessors();
  const std::size_t shared = 40 << 10;
  const Case cases[] = {
      {"plain_beside_plain", {1, 1}, 32, {false, false}, {0, 0}, false},
      {"cooperative_beside_plain", {1, 1}, 32, {true, false}, {0, 0}, false},
      {"cooperative_beside_cooperative", {1, 1}, 32, {true, true}, {0, 0}, false},
      {"16_ctas_each", {16, 16}, 512, {true, true}, {0, 0}, false},
      {"half_of_the_device_each", {sms / 2, sms / 2}, 512, {true, true}, {0, 0}, false},
      {"whole_device_each", {sms, sms}, 512, {true, true}, {0, 0}, false},
      {"unlike_shared_memory", {sms, sms}, 512, {true, true}, {shared, 0}, false},
      {"in_a_graph_beside_plain_launch", {16, 16}, 512, {true, true}, {0, 0}, true},
  };
  cudaStream_t stream[2] = {new_stream(), new_stream()};
  PROBE(launch({1, 32, 0, stream[0], true}, nothing));  // loaded
  PROBE(cudaDeviceSynchronize());
  std::string not_passed;
  bool plain = false, both = true;
  for (const Case& one : cases) {
    const std::uint32_t late = late_of(one, stream);
    put(one.name, late == 0 ? "at once" : print("one after the other, %u CTAs gave up", late));
    if (one.cooperative[1]) both = both && late == 0;
    if (&one == cases) plain = late == 0;
    if (late != 0) not_passed += std::string(not_passed.empty() ? "" : ", ") + one.name;
  }
  check("two_plain", plain, plain ? "they met" : "one waited for the other to end");
  check("two_cooperative", both, both ? "they met in all cases" : "not at once: " + not_passed);

  // A grid larger than the device: an error, but not a sticky one.
  int resident = 0;
  PROBE(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, rendezvous, 512, 0));
  put("resident_ctas_of_512", resident, "a multiprocessor");
  auto* const words = new_device<std::uint32_t>(64);
  const Launch large{sms * static_cast<unsigned>(resident) + 1, 512, 0, stream[0], true};
  const cudaError_t refused = launch(large, rendezvous, words, 0u, words + 32, kMillisecond);
  cudaGetLastError();
  put("too_large", name_of(refused));
  check("too_large_refused", refused == cudaErrorCooperativeLaunchTooLarge, name_of(refused));
  PROBE(cudaDeviceSynchronize());

  // A grid that does not fit beside running work waits for its turn.
  const Launch whole{sms * static_cast<unsigned>(resident), 512, 0, stream[0], true};
  PROBE(launch(whole, delay, 20 * kMillisecond));
  const Launch after{16, 512, 0, stream[1], true};
  const cudaError_t queued = launch(after, nothing);
  const bool over = queued == cudaSuccess && is_over(stream[1], 1);
  check("full_device_delays", over, over ? "it ran later" : name_of(queued));
  PROBE(cudaDeviceSynchronize());

  time_launches("plain_1x32", false, 1, 32);
  time_launches("cooperative_1x32", true, 1, 32);
  time_launches("plain_16x512", false, 16, 512);
  time_launches("cooperative_16x512", true, 16, 512);
  time_launches("cooperative_whole", true, sms, 512);
  time_turns("turns_plain", false);
  time_turns("turns_cooperative", true);
  answer(both ? "two cooperative grids run at once on two streams"
              : "not all pairs of cooperative grids run at once: " + not_passed);
}

}  // namespace probe
