// A user of the trainer: where there are no data, the call says so by a typed error on every rank.
#include <rondo/rondo.h>
#include <rondo/train.h>
#include <cstdio>

int main() {
  auto comm = rondo::Communicator::createAll(1);
  rondo::TrainOptions options;
  options.data = "/nowhere";
  try {
    rondo::train(comm[0], options);
  } catch (const rondo::Error& error) {
    std::puts(name(error.code()).data());
  }
}
