// SPDX-License-Identifier: Apache-2.0
// moe.h: a layer of a mixture of experts on rondoAllToAllvDevice. One expert a rank; each token
// goes to `choices` different experts.
//
// The host launches kernels and two calls, and reads nothing back: all of it can be one CUDA graph.
// Sums have the order of a token's choices, whatever arrives first, so the result has the same bits
// in every run. `Launch` runs body(i) for i < n on a stream (moe.cc).
//
//   Moe<Launch> moe(memory, ranks, tokens, width, choices);
//   moe.dispatch(x, experts, comm, launch);        // memory.in[r]: the rows from rank r
//   moe.run_expert(launch, expert);                // memory.out[r]
//   moe.combine(y, weights, experts, comm, launch);
#ifndef MOE_H_
#define MOE_H_

#include <cmath>
#include <cstddef>

#include "rondo.h"

#ifdef __CUDACC__
#define ON_GPU __host__ __device__
#else
#define ON_GPU
#endif

// Of one rank, in memory that the GPU reaches. Rows have `width` floats; a rank has a place for
// `tokens` rows to and from every other one.
struct MoeMemory {
  float *out, *in;      // ranks * tokens rows
  size_t *sent, *came;  // by rank: floats
  unsigned* row;        // by token and choice: its row among those to the expert
};

template <class Launch>
class Moe {
 public:
  Moe(const MoeMemory& memory, int ranks, size_t tokens, size_t width, size_t choices)
      : at_(memory), ranks_(ranks), tokens_(tokens), width_(width), choices_(choices) {}

  // x: rows of this rank's tokens. experts: by token and choice.
  ncclResult_t dispatch(const float* x, const int* experts, ncclComm_t comm, Launch launch) const {
    const auto at = at_;
    const size_t tokens = tokens_, width = width_, choices = choices_;
    // An expert's rows have the order of the tokens.
    launch(static_cast<size_t>(ranks_), [=] ON_GPU(size_t expert) {
      unsigned rows = 0;
      for (size_t i = 0; i < tokens * choices; ++i)
        if (experts[i] == static_cast<int>(expert)) at.row[i] = rows++;
      at.sent[expert] = rows * width;
    });
    launch(tokens * choices * width, [=] ON_GPU(size_t i) {
      const size_t choice = i / width, column = i % width;
      const size_t to = static_cast<size_t>(experts[choice]) * tokens + at.row[choice];
      at.out[to * width + column] = x[choice / choices * width + column];
    });
    return rondoAllToAllvDevice(at.out, at.sent, nullptr, at.in, nullptr, nullptr, at.came,
                                tokens * width, ncclFloat32, comm, launch.stream());
  }

  // expert(value): of each float of the rows that came.
  template <class Expert>
  void run_expert(Launch launch, Expert expert) const {
    const auto at = at_;
    const size_t place = tokens_ * width_;
    launch(static_cast<size_t>(ranks_) * place, [=] ON_GPU(size_t i) {
      if (i % place < at.came[i / place]) at.out[i] = expert(at.in[i]);
    });
  }

  // y: of each token the sum of its experts' rows, times the weights, in the order of its choices.
  ncclResult_t combine(float* y, const float* weights, const int* experts, ncclComm_t comm,
                       Launch launch) const {
    const auto at = at_;
    const size_t tokens = tokens_, width = width_, choices = choices_;
    const ncclResult_t result =
        rondoAllToAllvDevice(at.out, at.came, nullptr, at.in, at.sent, nullptr, nullptr,
                             tokens * width, ncclFloat32, comm, launch.stream());
    if (result != ncclSuccess) return result;
    launch(tokens * width, [=] ON_GPU(size_t i) {
      const size_t token = i / width, column = i % width;
      float sum = 0;
      for (size_t c = token * choices; c < (token + 1) * choices; ++c) {
        const size_t row = static_cast<size_t>(experts[c]) * tokens + at.row[c];
        sum = fmaf(weights[c], at.in[row * width + column], sum);
      }
      y[i] = sum;
    });
    return ncclSuccess;
  }

 private:
  const MoeMemory at_;
  const int ranks_;
  const size_t tokens_, width_, choices_;
};

#endif
