// One function per kind of layer, as close to its definition as can be.
#include "train_layers/reference.h"

#include <algorithm>
#include <cmath>

namespace rondo::test {

using namespace training;

namespace {

/// The values of a layer's own weights, by their place in its list.
class Own {
 public:
  Own(const Node& node, const std::vector<Numbers>& all) : node_(node), all_(all) {}
  const Numbers& operator[](std::size_t i) const { return all_[node_.weights[i]->number]; }

 private:
  const Node& node_;
  const std::vector<Numbers>& all_;
};

/// What a layer gets.
struct Job {
  const Node& node;
  const std::vector<Numbers>& all;
  const Values& in;

  Own own() const { return {node, all}; }
  Values empty() const { return {in.count, node.out, Numbers(in.count * node.out.size())}; }
};

Values run(const Linear&, const Job& job) {
  Values out = job.empty();
  const std::size_t inputs = job.in.shape.channels;
  for (std::size_t n = 0; n < out.count; ++n)
    for (std::size_t o = 0; o < out.shape.channels; ++o) {
      double sum = job.own()[1][o];
      for (std::size_t i = 0; i < inputs; ++i)
        sum += job.own()[0][o * inputs + i] * job.in.data[n * inputs + i];
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

Values runAll(const std::vector<Node>& nodes, const std::vector<Numbers>& all, Values values) {
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

Values Reference::output(Values in) const { return runAll(nodes_, weights, std::move(in)); }

double Reference::loss(const Values& in, const std::vector<std::uint8_t>& labels) const {
  const Values out = output(in);
  double loss = 0;
  for (std::size_t n = 0; n < out.count; ++n) {
    double sum = 0;
    for (std::size_t c = 0; c < out.shape.size(); ++c) sum += std::exp(out.at(n, c, 0, 0));
    loss += std::log(sum) - out.at(n, labels[n], 0, 0);
  }
  return loss;
}

} // namespace rondo::test
