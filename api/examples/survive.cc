// SPDX-License-Identifier: Apache-2.0
// survive: all-reduces on a stream; when a rank dies, the others continue without it.
//
//   rondo run -n 4 --keep-going -- survive         the last rank kills itself at step 10
#include <csignal>
#include <cstdio>
#include <vector>

#include "launch_env.h"
#include "rondo.h"

namespace {

constexpr int kSteps = 20;
constexpr int kTries = 10;

// Returns a communicator of the living ranks, and in *step the first step that one of them has not
// finished. A try fails if another rank ends meanwhile, comes later than RONDO_INIT_TIMEOUT, or
// does not know yet who has ended; so all try again. nullptr: no rank has ended (then the call was
// wrong, and would fail again), or all tries failed.
ncclComm_t without_the_ended(ncclComm_t comm, int me, int* step) {
  int size = 0, ended = 0;
  if (ncclCommCount(comm, &size) != ncclSuccess) return nullptr;
  std::vector<int> ranks(size);
  for (int tries = 1; tries <= kTries; ++tries) {
    if (rondoCommGetEnded(comm, ranks.data(), &ended) != ncclSuccess || ended == 0) break;
    ncclComm_t smaller = nullptr;
    ncclResult_t result =
        ncclCommShrink(comm, ranks.data(), ended, &smaller, nullptr, NCCL_SHRINK_ABORT);
    // Until this call has succeeded, another rank may have failed to shrink and needs `comm` again.
    if (result == ncclSuccess)
      result = ncclAllReduce(step, step, 1, ncclInt32, ncclMin, smaller, nullptr);
    if (result == ncclSuccess) {
      ncclCommAbort(comm);
      return smaller;
    }
    std::fprintf(stderr, "rank %d, try %d to shrink: %s\n", me, tries,
                 ncclGetLastError(smaller != nullptr ? smaller : comm));
    if (smaller != nullptr) ncclCommAbort(smaller);
  }
  std::fprintf(stderr, "rank %d gives up: %d ranks have ended\n", me, ended);
  return nullptr;
}

}  // namespace

int main() {
  rondo_launch_t me;
  if (rondo_launch_read(&me) < 0) return 1;
  ncclUniqueId id;
  if (me.rank == 0 && ncclGetUniqueId(&id) != ncclSuccess) return 1;
  if (rondo_launch_broadcast(&me, &id, sizeof id, 60.0) != 0) return 1;

  rondoCommOptions_t options = RONDO_COMM_OPTIONS_INITIALIZER;
  options.timeout = 300;  // seconds without progress, after which a call fails
  ncclComm_t comm = nullptr;
  rondoStream_t stream = nullptr;
  if (rondoCommInitRankOptions(&comm, me.size, id, me.rank, nullptr, &options) != ncclSuccess ||
      rondoStreamCreate(&stream) != ncclSuccess) {
    std::fprintf(stderr, "rank %d: %s\n", me.rank, ncclGetLastError(nullptr));
    return 1;
  }

  std::vector<float> values(1 << 20);
  for (int step = 0; step < kSteps;) {
    if (step == kSteps / 2 && me.size > 1 && me.rank == me.size - 1) raise(SIGKILL);
    for (float& value : values) value = 1;
    ncclResult_t result = ncclAllReduce(values.data(), values.data(), values.size(), ncclFloat32,
                                        ncclSum, comm, rondoStreamHandle(stream));
    // Other work could run here: the call runs on the stream's thread.
    const ncclResult_t finished = rondoStreamSynchronize(stream);
    if (result == ncclSuccess) result = finished;
    if (result == ncclSuccess) {
      ++step;
      continue;
    }
    std::fprintf(stderr, "rank %d, step %d: %s\n", me.rank, step, ncclGetLastError(comm));
    // The values of the step are lost: it is repeated on the smaller communicator.
    if ((comm = without_the_ended(comm, me.rank, &step)) == nullptr) return 1;
  }
  std::printf("rank %d: a sum of %g ranks after %d steps\n", me.rank, values[0], kSteps);
  rondoStreamDestroy(stream);
  return ncclCommDestroy(comm) == ncclSuccess ? 0 : 1;
}
