// SPDX-License-Identifier: Apache-2.0
// Cost of a group of small all-reduces and of the same number of separate calls, alternating in one
// run.
//
//   cmake --build --preset release --target group_cost
//   build/release/bin/rondo run -n 2 -- build/release/bin/group_cost 100 4096
//
// Arguments: calls, bytes of each (every call has its own buffers). Prints both medians over all
// rounds and the ratio of the group to the separate calls.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "api/launch_env.h"
#include "api/nccl.h"

namespace {

constexpr int kRounds = 300, kWarmUp = 20;

bool ok(ncclResult_t result) {
  if (result == ncclSuccess) return true;
  std::fprintf(stderr, "%s: %s\n", ncclGetErrorString(result), ncclGetLastError(nullptr));
  return false;
}

double now_us() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double, std::micro>(now).count();
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

}  // namespace

int main(int argc, char** argv) {
  const int calls = argc > 1 ? std::atoi(argv[1]) : 100;
  const std::size_t count = (argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 4096) / sizeof(float);
  if (calls < 1 || count < 1) {
    std::fprintf(stderr, "usage: group_cost [calls, from 1] [bytes, from 4]\n");
    return 2;
  }
  rondo_launch_t me;
  if (rondo_launch_read(&me) < 0) return 1;
  ncclUniqueId id;
  if (me.rank == 0 && !ok(ncclGetUniqueId(&id))) return 1;
  if (rondo_launch_broadcast(&me, &id, sizeof id, 60.0) != 0) return 1;
  ncclComm_t comm = nullptr;
  if (!ok(ncclCommInitRank(&comm, me.size, id, me.rank))) return 1;

  const std::size_t total = static_cast<std::size_t>(calls) * count;
  std::vector<float> input(total, 1.0f), output(total);
  std::vector<double> times[2];
  for (int round = -kWarmUp; round < kRounds; ++round) {
    for (const bool grouped : {false, true}) {
      float token = 0;
      if (!ok(ncclAllReduce(&token, &token, 1, ncclFloat, ncclSum, comm, nullptr))) return 1;
      const double start = now_us();
      if (grouped) ncclGroupStart();
      for (int i = 0; i < calls; ++i)
        if (!ok(ncclAllReduce(&input[i * count], &output[i * count], count, ncclFloat, ncclSum,
                              comm, nullptr)))
          return 1;
      if (grouped && !ok(ncclGroupEnd())) return 1;
      if (round >= 0) times[grouped].push_back(now_us() - start);
    }
  }
  if (me.rank == 0) {
    const double alone = median(times[0]), grouped = median(times[1]);
    std::printf("%d ranks, %d calls of %zu bytes: separate %.1f us, grouped %.1f us, ratio %.3f\n",
                me.size, calls, count * sizeof(float), alone, grouped, grouped / alone);
  }
  return !ok(ncclCommDestroy(comm));
}
