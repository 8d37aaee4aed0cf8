// SPDX-License-Identifier: Apache-2.0
// Adam (Kingma and Ba, 2015) over flat arrays: deterministic, element by element.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

namespace train {

// The state that training keeps between steps: three arrays of equal length, back to back.
struct State {
  float* parameters;
  float* mean;      // of the gradients
  float* variance;  // of the gradients, uncentred
};

// `step` counts from 1.
inline void adam_update(const State& state, const float* gradients, std::size_t count,
                        std::int64_t step, double learning_rate) {
  constexpr float kMean = 0.9f, kVariance = 0.999f, kLeast = 1e-8f;
  const auto t = static_cast<double>(step);
  const auto rate = static_cast<float>(learning_rate / (1 - std::pow(0.9, t)));
  const auto correction = static_cast<float>(1 / (1 - std::pow(0.999, t)));
  for (std::size_t i = 0; i < count; ++i) {
    const float g = gradients[i];
    state.mean[i] = kMean * state.mean[i] + (1 - kMean) * g;
    state.variance[i] = kVariance * state.variance[i] + (1 - kVariance) * g * g;
    state.parameters[i] -=
        rate * state.mean[i] / (std::sqrt(state.variance[i] * correction) + kLeast);
  }
}

}  // namespace train
