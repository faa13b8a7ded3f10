// GradientReducer: averages gradients that Python computes, in arrays that it makes for them.
#include "compat/python/gradients.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <charconv>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "compat/python/array.h"
#include "compat/python/rank.h"
#include "rondo/gradients.h"

namespace rondo::compat::python {

namespace {

constexpr const char* kName = "GradientReducer";

/// The number after the colon in "topk:0.01". Refuses what is no number.
template <class Number>
Number valueOf(const std::string& hook) {
  const char* const begin = hook.data() + hook.find(':') + 1;
  const char* const end = hook.data() + hook.size();
  Number value{};
  const auto [at, fault] = std::from_chars(begin, end, value);
  if (fault != std::errc() || at != end) refuse(kName, "hook \"" + hook + "\" has no valid value");
  return value;
}

std::shared_ptr<GradientHook> hookOf(const std::string& hook) try {
  if (hook == "none") return nullptr;
  if (hook == "float16") return compressGradients(DataType::float16);
  if (hook == "bfloat16") return compressGradients(DataType::bfloat16);
  if (hook.starts_with("topk:")) return topKGradients(valueOf<double>(hook));
  if (hook.starts_with("powersgd:")) return powerSgdGradients(valueOf<int>(hook));
  refuse(kName, "there is no hook \"" + hook +
                    "\"; there are none, float16, bfloat16, topk:DENSITY and powersgd:RANK");
} catch (const Error& error) {
  raise(error, {.name = kName});
}

/// A reducer, and everything that its parameters refer to. Functions need the interpreter's lock.
class Reducer {
 public:
  Reducer(nb::object rank, const nb::object& parameters, const GradientOptions& options)
      : owner_(std::move(rank)), rank_(rankOf(owner_)) {
    if (PyMapping_Check(parameters.ptr()) && nb::hasattr(parameters, "items")) {
      nb::dict gradients;
      for (const nb::handle pair : parameters.attr("items")()) {
        const nb::object key = pair[0]; // any object
        gradients[key] = add(nb::str(key).c_str(), pair[1]);
      }
      gradients_ = written("Named", gradients);
    } else {
      nb::list gradients;
      for (const nb::handle one : parameters)
        gradients.append(add(std::to_string(nb::len(gradients)), one));
      gradients_ = written("Numbered", gradients);
    }
    rank_.attend(info(kName), [&](OpenRank& open) {
      auto made = std::make_shared<GradientReducer>(open.comm(), told_, options);
      reducer_ = made;
      open.keep(std::move(made));
    });
  }
  ~Reducer() { rank_.drop(reducer_); }
  Reducer(const Reducer&) = delete;
  Reducer& operator=(const Reducer&) = delete;

  nb::object gradients() const { return gradients_; }

  void begin(bool synchronize) {
    attend("begin", [&](GradientReducer& reducer) { reducer.begin(synchronize); });
  }
  void ready(const nb::object& parameter) {
    const std::size_t number = numberOf(parameter);
    attend("ready", [&](GradientReducer& reducer) { reducer.ready(number); });
  }
  void wait() {
    attend("wait", [&](GradientReducer& reducer) { reducer.wait(); });
  }
  bool shadow() {
    bool more = false;
    attend("shadow", [&](GradientReducer& reducer) { more = reducer.shadow(); });
    return more;
  }
  nb::dict statistics() const {
    const GradientStatistics& all = statistics_;
    nb::dict result;
    result["steps"] = all.steps;
    result["forward"] = all.forward;
    result["backward"] = all.backward;
    result["communication"] = all.communication;
    result["overlap"] = all.overlap;
    result["exposed"] = all.exposed;
    result["bytes"] = all.bytes;
    return result;
  }

 private:
  static const Rank& rankOf(const nb::object& comm) {
    if (!nb::isinstance<Rank>(comm))
      refuse(kName,
             "comm is not a rondo.Communicator but " + nb::cast<std::string>(nb::str(comm.type())));
    return nb::cast<const Rank&>(comm);
  }
  /// The container as the program gets it: assignments write into its arrays.
  static nb::object written(const char* kind, const nb::object& arrays) {
    return nb::module_::import_("rondo._gradients").attr(kind)(arrays);
  }
  /// Takes a parameter. Returns the new array of its gradient, which is zero.
  nb::object add(const std::string& name, nb::handle parameter) {
    const Argument argument{kName, "a parameter"};
    Array& value = arrays_.emplace_back(parameter, argument, Array::Access::write);
    nb::object shape = nb::make_tuple(value.count());
    if (nb::hasattr(parameter, "shape")) shape = nb::tuple(parameter.attr("shape"));
    Parameter told{.name = name, .value = value.data(), .shape = {}, .type = value.type()};
    for (const nb::handle side : shape) told.shape.push_back(nb::cast<std::size_t>(side));
    nb::object made = newArray(shape, told.type);
    void* const data = arrays_.emplace_back(made, argument, Array::Access::write).data();
    if (told.bytes() > 0) std::memset(data, 0, told.bytes());
    told.gradient = data;
    told_.push_back(std::move(told));
    return made;
  }

  std::size_t numberOf(const nb::object& parameter) const {
    if (nb::isinstance<nb::dict>(gradients_)) {
      std::size_t number = 0;
      for (const nb::handle key : gradients_) {
        if (key.equal(parameter)) return number;
        ++number;
      }
    } else if (std::size_t number = 0; nb::try_cast(parameter, number) && number < told_.size()) {
      return number;
    }
    refuse("ready", "there is no parameter " + nb::cast<std::string>(nb::repr(parameter)));
  }

  CallInfo info(const char* name) const {
    return {.name = name, .rank = rank_.rank(), .size = rank_.size(), .aborts = true};
  }

  template <class Call>
  void attend(const char* name, const Call& call) {
    GradientStatistics statistics;
    rank_.attend(info(name), [&](OpenRank&) { // while that is open, the reducer exists
      const std::shared_ptr<GradientReducer> reducer = reducer_.lock();
      call(*reducer);
      statistics = reducer->statistics();
    });
    statistics_ = statistics;
  }

  const nb::object owner_;
  const Rank& rank_;
  std::vector<Array> arrays_; ///< values and gradients, in turn
  std::vector<Parameter> told_;
  nb::object gradients_;
  std::weak_ptr<GradientReducer> reducer_; ///< OpenRank owns it, so that close() destroys it
  GradientStatistics statistics_;
};

constexpr const char* kReducer = R"(
Averages gradients over the ranks in buckets, while the backward pass computes more of them.

comm           the Communicator; nothing else may use it between begin() and wait()
parameters     list of arrays, or dict of names and arrays, as the collectives take them. All ranks
               have the same, in the same order. The constructor is collective and gives every rank
               rank 0's values.
average        averages over the ranks; False: sums
overlap        starts each bucket as soon as it is full; False: wait() starts all
bucket_bytes   sizes of the first bucket, the second, ...; the last one is for all others
hook           how gradients are sent: "none", "float16", "bfloat16", "topk:DENSITY",
               "powersgd:RANK"; all but "none" take float32 only
find_unused    allows parameters without a gradient in a step
static_graph   promises that all steps are like the first
uneven_inputs  ranks may have different numbers of steps: see shadow()

>>> def job(comm):
...     weights = {"w": numpy.full(2, comm.rank + 1.0), "b": numpy.zeros(3)}
...     reducer = rondo.GradientReducer(comm, weights)
...     reducer.begin()
...     for name in ("b", "w"):  # the backward pass
...         reducer.gradients[name][:] = comm.rank
...         reducer.ready(name)
...     reducer.wait()
...     return weights["w"] - 0.1 * reducer.gradients["w"]
>>> rondo.run(job, ranks=2)
[array([0.95, 0.95]), array([0.95, 0.95])]

A whole model: the example numpy_mlp.py in Rondo's sources. Raises Error with code "mismatch" if
ranks have different parameters or options. A rank that makes calls in a wrong order, or passes an
option that is wrong by itself, gets Error with code "invalid_argument"; it aborts the communicator,
so that all others get Error with code "aborted". A wrong array, hook or name of a parameter is an
ArgumentError and aborts nothing.
)";

} // namespace

void addGradients(nb::module_& to) {
  nb::class_<Reducer>(to, kName, kReducer)
      .def(
          "__init__",
          [](Reducer* self, nb::object comm, const nb::object& parameters, bool average,
             bool overlap, std::vector<std::size_t> bucket_bytes, const std::string& hook,
             bool find_unused, bool static_graph, bool uneven_inputs) {
            const GradientOptions options{.bucket_bytes = std::move(bucket_bytes),
                                          .average = average,
                                          .overlap = overlap,
                                          .find_unused = find_unused,
                                          .static_graph = static_graph,
                                          .uneven_inputs = uneven_inputs,
                                          .hook = hookOf(hook)};
            new (self) Reducer(std::move(comm), parameters, options);
          },
          nb::arg("comm"), nb::arg("parameters"), nb::kw_only(), nb::arg("average") = true,
          nb::arg("overlap") = true, nb::arg("bucket_bytes") = GradientOptions().bucket_bytes,
          nb::arg("hook") = "none", nb::arg("find_unused") = false, nb::arg("static_graph") = false,
          nb::arg("uneven_inputs") = false,
          nb::sig("def __init__(self, comm: Communicator, parameters: "
                  "collections.abc.Sequence[typing.Any] | collections.abc.Mapping[str, "
                  "typing.Any], *, average: bool = True, overlap: bool = True, bucket_bytes: "
                  "collections.abc.Sequence[int] = [1048576, 26214400], hook: str = 'none', "
                  "find_unused: bool = False, static_graph: bool = False, uneven_inputs: bool = "
                  "False) -> None"))
      .def_prop_ro("gradients", &Reducer::gradients, nb::sig("def gradients(self) -> typing.Any"),
                   "NumPy arrays to which the program writes gradients, and in which it finds the "
                   "results; a list or a dict, as the parameters. They are zero at first. "
                   "`gradients[k] = g` copies g into the array of k.")
      .def("begin", &Reducer::begin, nb::arg("synchronize") = true, R"(
Begins a step.

With synchronize=False its ready() and wait() communicate nothing: the program accumulates its
gradients, which count as part of the next step with synchronize=True.
)")
      .def("ready", &Reducer::ready, nb::arg("parameter"),
           nb::sig("def ready(self, parameter: int | str) -> None"),
           "Reports that the gradient of this parameter, by number or by name, has been written.")
      .def("wait", &Reducer::wait,
           "Ends the step: returns when all gradients are averages over the ranks.")
      .def("shadow", &Reducer::shadow,
           "For a rank that has no steps left, with uneven_inputs: takes part in the others' next "
           "step. Returns False when no rank has a step left.")
      .def("statistics", &Reducer::statistics, nb::sig("def statistics(self) -> dict[str, float]"),
           "Where the time of all steps went, in seconds: forward, backward, communication, "
           "overlap, exposed; also the number of steps, and the bytes of the buckets.");
}

} // namespace rondo::compat::python
