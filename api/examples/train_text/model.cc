// SPDX-License-Identifier: Apache-2.0
#include "model.h"

#include <algorithm>
#include <cmath>

#include "data.h"

// Compiled twice if the compiler supports a choice at load time.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define TRAIN_CLONES __attribute__((target_clones("arch=x86-64-v3", "default")))
#else
#define TRAIN_CLONES
#endif

namespace train {
namespace {

constexpr int kRows = 4, kColumns = 16;  // of a tile that is summed in registers

typedef float Vector __attribute__((vector_size(kColumns / 2 * sizeof(float))));
typedef float Unaligned
    __attribute__((vector_size(kColumns / 2 * sizeof(float)), aligned(4), may_alias));

struct Strided {
  const float* data;
  std::ptrdiff_t row, column;  // strides in elements, so that A transposed costs nothing
};

// C[m x n] = A[m x k] * B[k x n]; rows of B and C are contiguous. Each element is summed in the
// order of k, for any shape.
TRAIN_CLONES void multiply(float* c, std::ptrdiff_t c_row, Strided a, const float* b, int m, int n,
                           int k) {
  for (int i = 0; i < m; i += kRows, c += kRows * c_row, a.data += kRows * a.row) {
    const int height = std::min(kRows, m - i);
    int j = 0;
    for (; height == kRows && j + kColumns <= n; j += kColumns) {
      Vector low[kRows] = {}, high[kRows] = {};
      for (int l = 0; l < k; ++l) {
        const float* at = b + static_cast<std::ptrdiff_t>(l) * n + j;
        const Vector left = *reinterpret_cast<const Unaligned*>(at);
        const Vector right = *reinterpret_cast<const Unaligned*>(at + kColumns / 2);
        for (int r = 0; r < kRows; ++r) {
          low[r] += a.data[r * a.row + l * a.column] * left;
          high[r] += a.data[r * a.row + l * a.column] * right;
        }
      }
      for (int r = 0; r < kRows; ++r) {
        *reinterpret_cast<Unaligned*>(c + r * c_row + j) = low[r];
        *reinterpret_cast<Unaligned*>(c + r * c_row + j + kColumns / 2) = high[r];
      }
    }
    for (; j < n; ++j)
      for (int r = 0; r < height; ++r) {
        float sum = 0;
        for (int l = 0; l < k; ++l)
          sum += a.data[r * a.row + l * a.column] * b[static_cast<std::ptrdiff_t>(l) * n + j];
        c[r * c_row + j] = sum;
      }
  }
}

}  // namespace

Model::Model(const Shape& shape) : shape_(shape) {
  layers_[0] = {0, shape.hidden + 1, shape.vocabulary};
  layers_[1] = {0, shape.hidden + 1, shape.hidden};
  layers_[2] = {0, shape.context * shape.embedding + 1, shape.hidden};
  layers_[3] = {0, shape.vocabulary, shape.embedding};
  for (Layer& layer : layers_) {
    layer.offset = size_;
    size_ += layer.size();
  }
}

void Model::initialize(std::uint64_t seed, float* parameters) const {
  for (int l = 0; l < kLayers; ++l) {
    const Layer& layer = layers_[l];
    const bool dense = l < kDenseLayers;
    const int weights = dense ? layer.rows - 1 : layer.rows;
    const double spread = dense ? std::sqrt((l == 0 ? 1.0 : 6.0) / weights) : 1.0;
    for (std::size_t i = 0; i < layer.size(); ++i) {
      const bool bias = i >= static_cast<std::size_t>(weights) * layer.columns;
      const auto drawn = static_cast<double>(random_at(seed, layer.offset + i) >> 11) * 0x1p-52 - 1;
      parameters[layer.offset + i] = bias ? 0.0f : static_cast<float>(spread * drawn);
    }
  }
}

Pass Model::make_pass(int samples) const {
  Pass pass;
  pass.samples.resize(samples);
  for (int l = 0; l < kDenseLayers; ++l) {
    pass.inputs[l].assign(static_cast<std::size_t>(samples) * layers_[l].rows, 1.0f);
    pass.gradients[l].resize(static_cast<std::size_t>(samples) * layers_[l].columns);
  }
  pass.gradients[3].resize(static_cast<std::size_t>(samples) * (layers_[2].rows - 1));
  return pass;
}

void Model::prepare(const float* parameters) {
  for (int l = 0; l < kDenseLayers; ++l) {
    const int inputs = layers_[l].rows - 1, outputs = layers_[l].columns;
    const float* from = parameters + layers_[l].offset;
    transposed_[l].resize(static_cast<std::size_t>(inputs) * outputs);
    for (int o = 0; o < outputs; ++o)
      for (int i = 0; i < inputs; ++i)
        transposed_[l][static_cast<std::size_t>(o) * inputs + i] =
            from[static_cast<std::size_t>(i) * outputs + o];
  }
}

void Model::forward(const float* parameters, Pass& pass) const {
  const int samples = static_cast<int>(pass.samples.size()), classes = shape_.vocabulary;
  const float* table = parameters + layers_[3].offset;
  for (int s = 0; s < samples; ++s) {
    float* row = pass.inputs[2].data() + static_cast<std::size_t>(s) * layers_[2].rows;
    for (int c = 0; c < shape_.context; ++c)
      row = std::copy_n(table + static_cast<std::size_t>(pass.samples[s][c]) * shape_.embedding,
                        shape_.embedding, row);
  }
  for (int l = kDenseLayers - 1; l >= 0; --l) {
    const Layer& layer = layers_[l];
    float* out = l == 0 ? pass.gradients[0].data() : pass.inputs[l - 1].data();
    const int out_row = l == 0 ? layer.columns : layers_[l - 1].rows;
    multiply(out, out_row, {pass.inputs[l].data(), layer.rows, 1}, parameters + layer.offset,
             samples, layer.columns, layer.rows);
    if (l == 0) break;
    for (float& value : pass.inputs[l - 1]) value = std::max(value, 0.0f);  // its 1 stays
  }
  pass.loss = 0;
  for (int s = 0; s < samples; ++s) {
    float* row = pass.gradients[0].data() + static_cast<std::size_t>(s) * classes;
    const int target = pass.samples[s][shape_.context];
    const float maximum = *std::max_element(row, row + classes), logit = row[target];
    float total = 0;
    for (int c = 0; c < classes; ++c) total += row[c] = std::exp(row[c] - maximum);
    pass.loss += (std::log(static_cast<double>(total)) - (logit - maximum)) / samples;
    const float scale = 1.0f / static_cast<float>(samples);
    for (int c = 0; c < classes; ++c) row[c] *= scale / total;
    row[target] -= scale;
  }
}

void Model::backward(int layer, Pass& pass, float* gradient) const {
  const Layer& of = layers_[layer];
  const int samples = static_cast<int>(pass.samples.size());
  if (layer == kDenseLayers) {
    std::fill_n(gradient, of.size(), 0.0f);
    const float* from = pass.gradients[layer].data();
    for (const std::uint8_t* sample : pass.samples)
      for (int c = 0; c < shape_.context; ++c) {
        float* row = gradient + static_cast<std::size_t>(sample[c]) * of.columns;
        for (int e = 0; e < of.columns; ++e) row[e] += *from++;
      }
    return;
  }
  const int inputs = of.rows - 1;
  const std::vector<float>& from = pass.gradients[layer];
  multiply(gradient, of.columns, {pass.inputs[layer].data(), 1, of.rows}, from.data(), of.rows,
           of.columns, samples);
  std::vector<float>& to = pass.gradients[layer + 1];
  multiply(to.data(), inputs, {from.data(), of.columns, 1}, transposed_[layer].data(), samples,
           inputs, of.columns);
  if (layer == kDenseLayers - 1) return;
  for (int s = 0; s < samples; ++s)  // ReLU: no gradient where its output is 0
    for (int i = 0; i < inputs; ++i)
      if (pass.inputs[layer][static_cast<std::size_t>(s) * of.rows + i] <= 0)
        to[static_cast<std::size_t>(s) * inputs + i] = 0.0f;
}

}  // namespace train
