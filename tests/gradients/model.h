// A model without layers, for tests: its gradients depend on rank, step and element, and are exact.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "rondo/gradients.h"

namespace rondo::test {

/// Integers that floats represent exactly, also when summed over 8 ranks and some steps.
inline float gradientOf(int rank, int step, std::size_t parameter, std::size_t element) {
  return static_cast<float>(static_cast<int>((parameter + 1) * (element % 7 + 1)) +
                            3 * (rank + 1) * (step + 1));
}

struct Model {
  std::vector<std::vector<std::size_t>> shapes;
  std::vector<std::vector<float>> values, gradients;
  bool views = true; ///< the reducer owns the gradients

  Model(std::vector<std::vector<std::size_t>> of, bool in_buckets)
      : shapes(std::move(of)), views(in_buckets) {
    for (const auto& shape : shapes) {
      std::size_t count = 1;
      for (std::size_t extent : shape) count *= extent;
      values.emplace_back(count, 1.0F);
      gradients.emplace_back(count, 0.0F);
    }
  }

  std::vector<Parameter> parameters() {
    std::vector<Parameter> all;
    for (std::size_t i = 0; i < shapes.size(); ++i)
      all.push_back({.name = "p" + std::to_string(i),
                     .value = values[i].data(),
                     .shape = shapes[i],
                     .type = DataType::float32,
                     .gradient = views ? nullptr : gradients[i].data()});
    return all;
  }
};

/// Shapes of odd sizes, a scalar, an empty parameter and a matrix.
inline std::vector<std::vector<std::size_t>> someShapes() {
  return {{33, 17}, {17}, {}, {0}, {64, 5, 3}, {1000}, {7}, {129}};
}

/// Adds the rank's gradient of a parameter to the present value, or overwrites it.
inline void backward(GradientReducer& reducer, std::size_t parameter, std::size_t count, int rank,
                     int step, bool add = false) {
  auto* const gradient = static_cast<float*>(reducer.gradient(parameter));
  for (std::size_t e = 0; e < count; ++e)
    gradient[e] = (add ? gradient[e] : 0.0F) + gradientOf(rank, step, parameter, e);
}

/// Describes the first difference from `want(parameter, element)`; empty if there is none.
template <class Want>
std::string differs(const GradientReducer& reducer, const Model& model, const Want& want) {
  for (std::size_t i = 0; i < model.shapes.size(); ++i) {
    const auto* const gradient = static_cast<const float*>(reducer.gradient(i));
    for (std::size_t e = 0; e < model.values[i].size(); ++e)
      if (gradient[e] != want(i, e))
        return "parameter " + std::to_string(i) + ", element " + std::to_string(e) + ": " +
               std::to_string(gradient[e]) + ", not " + std::to_string(want(i, e));
  }
  return {};
}

} // namespace rondo::test
