// SPDX-License-Identifier: Apache-2.0
// Buckets: the pieces in which gradients are reduced, in the order in which they become ready.
//
// A bucket is a block of rows of one layer: small enough to be reduced while the next one is
// computed, large enough to be worth a call.
#pragma once

#include <algorithm>
#include <vector>

#include "model.h"

namespace train {

struct Bucket {
  int layer = 0;
  int begin = 0, end = 0;  // rows
  std::size_t offset = 0;  // in the flat gradients
  std::size_t count = 0;   // elements
};

inline std::vector<Bucket> make_buckets(const Model& model, std::size_t bytes) {
  std::vector<Bucket> buckets;
  for (int l = 0; l < kLayers; ++l) {
    const Layer& layer = model.layer(l);
    const std::size_t row_bytes = static_cast<std::size_t>(layer.columns) * sizeof(float);
    // All embedding rows become ready at the same time.
    const int rows = l == kEmbedding
                         ? layer.rows
                         : std::clamp(static_cast<int>(bytes / row_bytes), 1, layer.rows);
    for (int begin = 0; begin < layer.rows; begin += rows) {
      const int end = std::min(begin + rows, layer.rows);
      buckets.push_back({l, begin, end,
                         layer.offset + static_cast<std::size_t>(begin) * layer.columns,
                         static_cast<std::size_t>(end - begin) * layer.columns});
    }
  }
  return buckets;
}

}  // namespace train
