// One function for each kind of layer, as close to its definition as possible.
#include "train/layers/reference.h"

#include <algorithm>
#include <cmath>

namespace rondo::test {

using namespace training;

namespace {

/// The arguments of a layer.
struct Job {
  const Node& node;
  const Reference& all;
  const Values& in;

  /// The values of one of the layer's weights, by its index in the layer.
  const Numbers& own(std::size_t i) const { return all.weights[node.weights[i]->number]; }
  Values empty() const { return {in.count, node.out, Numbers(in.count * node.out.size())}; }
};

Values run(const Linear&, const Job& job) {
  Values out = job.empty();
  const std::size_t inputs = job.in.shape.channels;
  for (std::size_t n = 0; n < out.count; ++n)
    for (std::size_t o = 0; o < out.shape.channels; ++o) {
      double sum = job.own(1)[o];
      for (std::size_t i = 0; i < inputs; ++i)
        sum += job.own(0)[o * inputs + i] * job.in.data[n * inputs + i];
      out.at(n, o, 0, 0) = sum;
    }
  return out;
}

Values run(const Relu&, const Job& job) {
  Values out = job.in;
  for (double& value : out.data) value = std::max(value, 0.0);
  return out;
}

Values run(const Flatten&, const Job& job) {
  Values out = job.in;
  out.shape = job.node.out;
  return out;
}

/// Calls visit(y, x, index in the window) for each place of the window of output place (oy, ox).
template <class Visit>
void overWindow(const Window& window, const SampleShape& in, std::size_t oy, std::size_t ox,
                const Visit& visit) {
  for (std::size_t ky = 0; ky < window.kernel; ++ky)
    for (std::size_t kx = 0; kx < window.kernel; ++kx) {
      // Padded coordinates, so that they are not negative.
      const std::size_t y = oy * window.stride + ky, x = ox * window.stride + kx;
      if (y < window.padding || x < window.padding || y - window.padding >= in.height ||
          x - window.padding >= in.width)
        continue;
      visit(y - window.padding, x - window.padding, ky * window.kernel + kx);
    }
}

/// Computes value(n, channel, y, x) for each entry.
template <class Value>
Values fill(const Job& job, const Value& value) {
  Values out = job.empty();
  for (std::size_t n = 0; n < out.count; ++n)
    for (std::size_t c = 0; c < out.shape.channels; ++c)
      for (std::size_t y = 0; y < out.shape.height; ++y)
        for (std::size_t x = 0; x < out.shape.width; ++x) out.at(n, c, y, x) = value(n, c, y, x);
  return out;
}

Values run(const Convolution& layer, const Job& job) {
  const std::size_t area = layer.window.kernel * layer.window.kernel;
  const std::size_t inputs = job.in.shape.channels;
  const Numbers& filters = job.own(0);
  return fill(job, [&](std::size_t n, std::size_t c, std::size_t oy, std::size_t ox) {
    double sum = layer.bias ? job.own(1)[c] : 0;
    overWindow(layer.window, job.in.shape, oy, ox,
               [&](std::size_t y, std::size_t x, std::size_t k) {
                 for (std::size_t i = 0; i < inputs; ++i)
                   sum += filters[(c * inputs + i) * area + k] * job.in.at(n, i, y, x);
               });
    return sum;
  });
}

Values run(const MaxPool& layer, const Job& job) {
  return fill(job, [&](std::size_t n, std::size_t c, std::size_t oy, std::size_t ox) {
    double highest = -1e30;
    overWindow(layer.window, job.in.shape, oy, ox, [&](std::size_t y, std::size_t x, std::size_t) {
      highest = std::max(highest, job.in.at(n, c, y, x));
    });
    return highest;
  });
}

Values run(const AveragePool& layer, const Job& job) {
  return fill(job, [&](std::size_t n, std::size_t c, std::size_t oy, std::size_t ox) {
    double sum = 0;
    overWindow(layer.window, job.in.shape, oy, ox,
               [&](std::size_t y, std::size_t x, std::size_t) { sum += job.in.at(n, c, y, x); });
    return sum / static_cast<double>(layer.window.kernel * layer.window.kernel);
  });
}

Values run(const GlobalAveragePool&, const Job& job) {
  const std::size_t places = job.in.shape.height * job.in.shape.width;
  return fill(job, [&](std::size_t n, std::size_t c, std::size_t, std::size_t) {
    double sum = 0;
    for (std::size_t p = 0; p < places; ++p)
      sum += job.in.data[(n * job.in.shape.channels + c) * places + p];
    return sum / static_cast<double>(places);
  });
}

Values run(const BatchNorm&, const Job& job) {
  const SampleShape& shape = job.in.shape;
  const auto places = static_cast<double>(job.in.count * shape.height * shape.width);
  const auto mean = [&](std::size_t c, const auto& value) {
    double sum = 0;
    for (std::size_t n = 0; n < job.in.count; ++n)
      for (std::size_t y = 0; y < shape.height; ++y)
        for (std::size_t x = 0; x < shape.width; ++x) sum += value(job.in.at(n, c, y, x));
    return sum / places;
  };
  Numbers means, variances;
  for (std::size_t c = 0; c < shape.channels; ++c) {
    const double middle = mean(c, [](double v) { return v; });
    means.push_back(middle);
    variances.push_back(mean(c, [&](double v) { return (v - middle) * (v - middle); }));
  }
  if (!job.all.state.empty()) {
    means = job.all.state[job.node.state[0]->number];
    variances = job.all.state[job.node.state[1]->number];
  }
  return fill(job, [&](std::size_t n, std::size_t c, std::size_t y, std::size_t x) {
    return job.own(0)[c] * (job.in.at(n, c, y, x) - means[c]) / std::sqrt(variances[c] + 1e-5) +
           job.own(1)[c];
  });
}

/// The reference does not drop values, so tests use it with a rate of zero.
Values run(const Dropout&, const Job& job) { return job.in; }

Values runAll(const std::vector<Node>& nodes, const Reference& all, Values values);

Values run(const Residual&, const Job& job) {
  Values sum = runAll(job.node.body, job.all, job.in);
  const Values other = runAll(job.node.shortcut, job.all, job.in);
  for (std::size_t i = 0; i < sum.data.size(); ++i) sum.data[i] += other.data[i];
  return sum;
}

Values runAll(const std::vector<Node>& nodes, const Reference& all, Values values) {
  for (const Node& node : nodes)
    values = std::visit(
        [&](const auto& layer) {
          return run(layer, Job{node, all, values});
        },
        node.value);
  return values;
}

} // namespace

Reference::Reference(const LayerValues& layers, const SampleShape& in)
    : nodes_(place(layers, in, "", places_)) {
  for (const Weight& weight : places_.learned) weights.emplace_back(weight.size());
}

double Reference::loss(const Values& in, const std::vector<std::uint8_t>& labels) const {
  const Values out = runAll(nodes_, *this, in);
  double loss = 0;
  for (std::size_t n = 0; n < out.count; ++n) {
    double sum = 0;
    for (std::size_t c = 0; c < out.shape.size(); ++c) sum += std::exp(out.at(n, c, 0, 0));
    loss += std::log(sum) - out.at(n, labels[n], 0, 0);
  }
  return loss;
}

} // namespace rondo::test
