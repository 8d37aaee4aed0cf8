// SPDX-License-Identifier: Apache-2.0
// Model: predicts a character from the `context` characters before it.
//
//   characters -> embedding -> dense, ReLU -> dense, ReLU -> dense -> softmax
//
// Parameters are one flat array in the order in which the backward pass finishes their gradients:
// output layer, hidden layer, input layer, embedding. A dense layer is a matrix of (inputs + 1) x
// outputs whose last row is the bias. The gradient of any block of rows of any layer can be
// computed separately, so the caller chooses the buckets.
//
//   model.forward(parameters, samples, shard)            loss of one shard
//   for layer in 0, 1, 2: model.weight_gradient(...) for its rows; model.input_gradient(...)
//   model.embedding_gradient(...)
#pragma once

#include <cstdint>
#include <vector>

namespace train {

struct Shape {
  int vocabulary = 0, context = 0, embedding = 0, hidden = 0;
};

// A matrix in the flat array.
struct Layer {
  std::size_t offset = 0;
  int rows = 0, columns = 0;
  std::size_t size() const { return static_cast<std::size_t>(rows) * columns; }
};

inline constexpr int kDenseLayers = 3;
inline constexpr int kEmbedding = 3;  // index of the embedding among the layers
inline constexpr int kLayers = 4;

// Data of the passes for the samples of one shard.
struct Shard {
  std::vector<const std::uint8_t*> samples;
  std::vector<float> inputs[kDenseLayers];  // of dense layer l; each row ends with a 1 for the bias
  std::vector<float> gradients[kDenseLayers];  // with respect to the outputs of dense layer l
  std::vector<float> embedded;                 // gradient with respect to the first layer's inputs
  double loss = 0;                             // summed over the samples
};

class Model {
 public:
  explicit Model(const Shape& shape);

  const Layer& layer(int index) const { return layers_[index]; }
  std::size_t size() const { return size_; }

  void initialize(std::uint64_t seed, float* parameters) const;
  Shard make_shard(int samples) const;

  // Call once per step, before the passes: transposes the matrices that the backward pass reads.
  void prepare(const float* parameters);

  // Sets the loss, and the gradient with respect to the logits, times `scale`.
  void forward(const float* parameters, float scale, Shard& shard) const;
  // Gradient of rows [begin, end) of a dense layer: (end - begin) x columns, back to back.
  void weight_gradient(int layer, int begin, int end, const Shard& shard, float* out) const;
  // Gradient with respect to a dense layer's inputs: the outputs of the next layer in the order.
  void input_gradient(int layer, Shard& shard) const;
  void embedding_gradient(const Shard& shard, float* out) const;

  // The logits of one context.
  std::vector<float> predict(const float* parameters, const std::uint8_t* context) const;

 private:
  void run_layers(const float* parameters, Shard& shard) const;

  Shape shape_;
  Layer layers_[kLayers];
  std::size_t size_ = 0;
  std::vector<float> transposed_[kDenseLayers];  // columns x (rows - 1)
};

}  // namespace train
