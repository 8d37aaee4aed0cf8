// SPDX-License-Identifier: Apache-2.0
// Model: predicts a character from the `context` characters before it.
//
//   characters -> embedding -> dense, ReLU -> dense, ReLU -> dense -> softmax
//
// Parameters are one flat array in the order in which the backward pass finishes their gradients:
// output layer, hidden layer, input layer, embedding. A dense layer is a matrix of (inputs + 1) x
// outputs whose last row is the bias.
//
//   model.prepare(parameters);                           once a step
//   model.forward(parameters, pass);                     the loss of one shard's samples
//   for layer in 0 ... kLayers - 1: model.backward(layer, pass, gradient of that layer)
#pragma once

#include <cstddef>
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
inline constexpr int kLayers = 4;  // the last one is the embedding

// The data of one shard between its passes.
struct Pass {
  std::vector<const std::uint8_t*> samples;
  std::vector<float> inputs[kDenseLayers];  // of dense layer l; each row ends with a 1 for the bias
  std::vector<float> gradients[kLayers];    // with respect to the outputs of layer l
  double loss = 0;                          // mean over the samples
};

class Model {
 public:
  explicit Model(const Shape& shape);

  const Layer& layer(int index) const { return layers_[index]; }
  std::size_t size() const { return size_; }

  void initialize(std::uint64_t seed, float* parameters) const;
  Pass make_pass(int samples) const;
  // Transposes the matrices that the backward pass reads.
  void prepare(const float* parameters);
  // Sets the loss, and its gradient with respect to the logits.
  void forward(const float* parameters, Pass& pass) const;
  // The gradient of a layer's parameters; layers come in their order.
  void backward(int layer, Pass& pass, float* gradient) const;

 private:
  Shape shape_;
  Layer layers_[kLayers];
  std::size_t size_ = 0;
  std::vector<float> transposed_[kDenseLayers];  // outputs x inputs
};

}  // namespace train
