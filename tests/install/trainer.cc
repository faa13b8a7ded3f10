// A program that uses the trainer: if the data are missing, every rank gets a typed error.
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
