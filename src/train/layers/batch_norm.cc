// The weights and running statistics of batch norm.
#include "train/layers/values.h"

namespace rondo::training {

Learned BatchNorm::learned(const SampleShape& in) const {
  return {{{.name = "weight", .shape = {in.channels}, .start = 1},
           {.name = "bias", .shape = {in.channels}}},
          {{.name = "running_mean", .shape = {in.channels}},
           {.name = "running_var", .shape = {in.channels}, .start = 1}}};
}

} // namespace rondo::training
