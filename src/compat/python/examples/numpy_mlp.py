"""Trains a multi-layer perceptron, written in NumPy, on the ranks of a job.

    rondo run -p 2 -- python numpy_mlp.py

Each rank computes the gradients of its own samples; GradientReducer averages those of the last
layers while the backward pass computes those of the first ones.
"""

import numpy

import rondo


def samples(count, rank=0, size=1, features=64, classes=10):
    """This rank's part of `count` points around one centre for each class."""
    centres = numpy.random.default_rng(1).standard_normal((classes, features))
    chance = numpy.random.default_rng(2 + rank)
    labels = numpy.arange(rank, count, size) % classes
    noise = chance.standard_normal((len(labels), features))
    return (centres[labels] + 1.5 * noise).astype(numpy.float32), labels


class Mlp:
    """Layers of weights w0, w1, ... [inputs x outputs] and biases b0, b1, ..."""

    def __init__(self, sizes, seed=1):
        chance = numpy.random.default_rng(seed)
        self.layers = len(sizes) - 1
        self.values = {}
        for i, (inputs, outputs) in enumerate(zip(sizes, sizes[1:])):
            scale = numpy.sqrt(2 / inputs)
            self.values[f"w{i}"] = (scale * chance.standard_normal((inputs, outputs))).astype("f4")
            self.values[f"b{i}"] = numpy.zeros(outputs, "f4")

    def forward(self, x):
        """The inputs of all layers, and the scores."""
        passed = [x]
        for i in range(self.layers):
            x = x @ self.values[f"w{i}"] + self.values[f"b{i}"]
            if i + 1 < self.layers:
                x = numpy.maximum(x, 0)
            passed.append(x)
        return passed

    def backward(self, passed, labels, reducer):
        """Writes the gradients of the mean loss, and reports each to the reducer. Returns it."""
        scores = passed[-1]
        odds = numpy.exp(scores - scores.max(axis=1, keepdims=True))
        odds /= odds.sum(axis=1, keepdims=True)
        rows = numpy.arange(len(labels))
        loss = -numpy.log(odds[rows, labels] + 1e-12).mean()
        slope = odds
        slope[rows, labels] -= 1
        slope /= len(labels)
        for i in reversed(range(self.layers)):
            numpy.matmul(passed[i].T, slope, out=reducer.gradients[f"w{i}"])
            reducer.gradients[f"b{i}"][:] = slope.sum(axis=0)
            if i > 0:
                slope = (slope @ self.values[f"w{i}"].T) * (passed[i] > 0)
            reducer.ready(f"w{i}")
            reducer.ready(f"b{i}")
        return float(loss)

    def accuracy(self, x, labels):
        return float((self.forward(x)[-1].argmax(axis=1) == labels).mean())


def train(comm, model, x, labels, steps, batch=64, rate=0.1, done=0, after_step=None):
    """Trains steps done to steps - 1; every rank ends with the same weights."""
    reducer = rondo.GradientReducer(comm, model.values)
    for step in range(done, steps):
        chosen = numpy.random.default_rng((comm.rank, step)).integers(len(labels), size=batch)
        reducer.begin()
        loss = model.backward(model.forward(x[chosen]), labels[chosen], reducer)
        reducer.wait()
        for name, value in model.values.items():
            value -= rate * reducer.gradients[name]
        if after_step:
            after_step(step + 1, loss)
    return reducer.statistics()


def main():
    comm = rondo.init()
    x, labels = samples(8000, comm.rank, comm.size)
    model = Mlp([64, 128, 64, 10])
    times = train(comm, model, x, labels, steps=300)
    own = model.accuracy(*samples(2000, 100 + comm.rank))
    accuracy = comm.all_reduce(numpy.array([own]), "avg")
    if comm.rank == 0:
        print(f"{comm.size} ranks: accuracy {accuracy[0]:.3f}, "
              f"{times['exposed'] / times['steps'] * 1e6:.0f} us of waiting in a step")


if __name__ == "__main__":
    main()
