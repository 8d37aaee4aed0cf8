// SPDX-License-Identifier: Apache-2.0
#include "model.h"

#include <algorithm>
#include <cmath>

#include "hash.h"
#include "multiply.h"

namespace train {

Model::Model(const Shape& shape) : shape_(shape) {
  layers_[0] = {0, shape.hidden + 1, shape.vocabulary};
  layers_[1] = {0, shape.hidden + 1, shape.hidden};
  layers_[2] = {0, shape.context * shape.embedding + 1, shape.hidden};
  layers_[kEmbedding] = {0, shape.vocabulary, shape.embedding};
  for (Layer& layer : layers_) {
    layer.offset = size_;
    size_ += layer.size();
  }
}

void Model::initialize(std::uint64_t seed, float* parameters) const {
  for (int l = 0; l < kLayers; ++l) {
    const Layer& layer = layers_[l];
    const int weights = l == kEmbedding ? layer.rows : layer.rows - 1;
    const double spread = l == kEmbedding ? 1.0 : std::sqrt((l == 0 ? 1.0 : 6.0) / weights);
    for (std::size_t i = 0; i < layer.size(); ++i) {
      const bool bias = i >= static_cast<std::size_t>(weights) * layer.columns;
      const double drawn = 2 * uniform_at(seed, layer.offset + i) - 1;
      parameters[layer.offset + i] = bias ? 0.0f : static_cast<float>(spread * drawn);
    }
  }
}

Shard Model::make_shard(int samples) const {
  Shard shard;
  shard.samples.resize(samples);
  for (int l = 0; l < kDenseLayers; ++l) {
    shard.inputs[l].assign(static_cast<std::size_t>(samples) * layers_[l].rows, 1.0f);
    shard.gradients[l].resize(static_cast<std::size_t>(samples) * layers_[l].columns);
  }
  shard.embedded.resize(static_cast<std::size_t>(samples) * (layers_[2].rows - 1));
  return shard;
}

void Model::prepare(const float* parameters) {
  for (int l = 0; l < kDenseLayers; ++l) {
    const int inputs = layers_[l].rows - 1, outputs = layers_[l].columns;
    const float* from = parameters + layers_[l].offset;
    transposed_[l].resize(static_cast<std::size_t>(inputs) * outputs);
    constexpr int kBlock = 16;
    for (int i = 0; i < inputs; i += kBlock)
      for (int o = 0; o < outputs; ++o)
        for (int k = i; k < std::min(i + kBlock, inputs); ++k)
          transposed_[l][static_cast<std::size_t>(o) * inputs + k] =
              from[static_cast<std::size_t>(k) * outputs + o];
  }
}

void Model::run_layers(const float* parameters, Shard& shard) const {
  const int samples = static_cast<int>(shard.samples.size());
  const float* table = parameters + layers_[kEmbedding].offset;
  const int width = shape_.embedding;
  for (int s = 0; s < samples; ++s) {
    float* row = shard.inputs[2].data() + static_cast<std::size_t>(s) * layers_[2].rows;
    for (int c = 0; c < shape_.context; ++c)
      std::copy_n(table + static_cast<std::size_t>(shard.samples[s][c]) * width, width,
                  row + c * width);
  }
  for (int l = kDenseLayers - 1; l >= 0; --l) {
    const Layer& layer = layers_[l];
    const Strided inputs{shard.inputs[l].data(), layer.rows, 1};
    const bool last = l == 0;
    float* out = last ? shard.gradients[0].data() : shard.inputs[l - 1].data();
    const int out_row = last ? layer.columns : layers_[l - 1].rows;
    multiply(out, out_row, inputs, parameters + layer.offset, layer.columns, samples, layer.columns,
             layer.rows);
    if (last) continue;
    for (int s = 0; s < samples; ++s) {
      float* row = out + static_cast<std::size_t>(s) * out_row;
      for (int o = 0; o < layer.columns; ++o) row[o] = row[o] > 0 ? row[o] : 0.0f;
    }
  }
}

void Model::forward(const float* parameters, float scale, Shard& shard) const {
  run_layers(parameters, shard);
  shard.loss = 0;
  const int classes = shape_.vocabulary;
  for (std::size_t s = 0; s < shard.samples.size(); ++s) {
    float* row = shard.gradients[0].data() + s * classes;
    const int target = shard.samples[s][shape_.context];
    const float maximum = *std::max_element(row, row + classes);
    const float logit = row[target];
    float total = 0;
    for (int c = 0; c < classes; ++c) total += row[c] = std::exp(row[c] - maximum);
    shard.loss += std::log(static_cast<double>(total)) - static_cast<double>(logit - maximum);
    const float factor = scale / total;
    for (int c = 0; c < classes; ++c) row[c] *= factor;
    row[target] -= scale;
  }
}

void Model::weight_gradient(int layer, int begin, int end, const Shard& shard, float* out) const {
  const int rows = layers_[layer].rows, columns = layers_[layer].columns;
  multiply(out, columns, {shard.inputs[layer].data() + begin, 1, rows},
           shard.gradients[layer].data(), columns, end - begin, columns,
           static_cast<int>(shard.samples.size()));
}

void Model::input_gradient(int layer, Shard& shard) const {
  const int samples = static_cast<int>(shard.samples.size());
  const int inputs = layers_[layer].rows - 1, outputs = layers_[layer].columns;
  const bool first = layer == kDenseLayers - 1;
  float* out = first ? shard.embedded.data() : shard.gradients[layer + 1].data();
  multiply(out, inputs, {shard.gradients[layer].data(), outputs, 1}, transposed_[layer].data(),
           inputs, samples, inputs, outputs);
  if (first) return;
  for (int s = 0; s < samples; ++s) {  // ReLU: no gradient where its output is 0
    const float* input = shard.inputs[layer].data() + static_cast<std::size_t>(s) * (inputs + 1);
    float* row = out + static_cast<std::size_t>(s) * inputs;
    for (int i = 0; i < inputs; ++i) row[i] = input[i] > 0 ? row[i] : 0.0f;
  }
}

void Model::embedding_gradient(const Shard& shard, float* out) const {
  const int width = shape_.embedding;
  std::fill_n(out, layers_[kEmbedding].size(), 0.0f);
  const float* from = shard.embedded.data();
  for (const std::uint8_t* sample : shard.samples)
    for (int c = 0; c < shape_.context; ++c, from += width) {
      float* row = out + static_cast<std::size_t>(sample[c]) * width;
      for (int e = 0; e < width; ++e) row[e] += from[e];
    }
}

std::vector<float> Model::predict(const float* parameters, const std::uint8_t* context) const {
  Shard shard = make_shard(1);
  shard.samples[0] = context;
  run_layers(parameters, shard);
  return shard.gradients[0];
}

}  // namespace train
