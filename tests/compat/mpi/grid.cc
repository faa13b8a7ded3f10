// Compares every collective with the MPI library's own in the same process: type x operator x in
// place x root x count x spread x communicator, blocking and as nonblocking calls.
//
//   compat_mpi_grid [--seed N] [--passes N] [--taken-over] [--large] [--part I/N]
//
// The full product would be millions of cases. Collective x form x communicator x in place x count,
// and collective x form x type x operator, are complete; everything else is chosen at random,
// equally on all ranks. In a third of the cases all ranks call the large-count form, in another
// third the odd ranks do, if the MPI library has it.
//
// --taken-over: also legal calls that Open MPI 4.1.4 or MPICH 4.0.2 themselves get wrong, mainly
// types with the same signature that differ between ranks and sides. --large: only large counts,
// equal on all ranks. --part I/N: every Nth case of the lists, from the Ith on.
#include <algorithm>
#include <chrono>
#include <thread>

#include "case.h"
#include "intercommunicator.h"
#include "options.h"
#include "progress.h"

using namespace rondo::test;

namespace {

enum class Form { blocking, wait, test };
constexpr auto kForms = std::to_array<Form>({Form::blocking, Form::wait, Form::test});

/// Which ranks call the large-count form. MPI lets each choose.
enum class Large { none, all, odd };

const char* name(Form form) {
  return form == Form::blocking ? ""
         : form == Form::wait   ? "nonblocking call and Wait: "
                                : "nonblocking call, Test: ";
}

bool hasInPlace(Collective what) {
  return what != Collective::Bcast && what != Collective::Barrier;
}

/// Waits for a request, and lets other ranks run meanwhile.
int testUntilDone(MPI_Request& request) {
  for (int done = 0;;) {
    const int result = MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    if (result != MPI_SUCCESS || done != 0) return result;
    std::this_thread::sleep_for(std::chrono::microseconds(1));
  }
}

int callInForm(const Library& library, const Operation& operation, Form form) {
  if (form == Form::blocking) return call(library, operation, nullptr);
  MPI_Request request = MPI_REQUEST_NULL;
  const int started = call(library, operation, &request);
  if (started != MPI_SUCCESS) return started;
  return form == Form::wait ? MPI_Wait(&request, MPI_STATUS_IGNORE) : testUntilDone(request);
}

int errorClass(int code) {
  int found = 0;
  MPI_Error_class(code, &found);
  return found;
}

class Grid {
 public:
  Grid(const Datatypes& types, Progress& progress, const Options& options, std::uint64_t seed)
      : types_(types), progress_(progress), options_(options), state_(seed) {}

  void communicators(const Communicator& where);
  void typesAndOperators(const Communicator& where);
  void largeCounts(const Communicator& where);

 private:
  int draw(int below) {
    state_ = mix(state_);
    return static_cast<int>(state_ % static_cast<std::uint64_t>(below));
  }
  const BaseType& base(const Shape& shape) const { return types_.bases()[shape.base]; }
  void drawType(Shape& shape);
  /// Chooses what the caller has not set in the shape.
  void drawRest(Shape& shape, const Communicator& where);
  void avoidKnownFaults(Shape& shape, const Communicator& where) const;
  Form formThatWorks(const Shape& shape, Form form) const;
  Form originalForm(const Shape& shape, const Communicator& where) const;
  void run(Shape shape, Form wanted, const Communicator& where);

  const Datatypes& types_;
  Progress& progress_;
  const Options& options_;
  std::uint64_t state_;
  int listed_ = 0;
};

void Grid::drawType(Shape& shape) {
  for (;;) {
    shape.base = static_cast<std::size_t>(draw(static_cast<int>(types_.bases().size())));
    if (!reduces(shape.what)) return;
    const std::vector<Operator> operators = types_.operators(base(shape));
    if (operators.empty()) continue;
    shape.op = operators[static_cast<std::size_t>(draw(static_cast<int>(operators.size())))];
    return;
  }
}

void Grid::drawRest(Shape& shape, const Communicator& where) {
  const std::array<int, 3> roots{0, where.size / 2, where.size - 1};
  shape.root = roots[static_cast<std::size_t>(draw(3))];
  shape.spread = {draw(2) == 0, draw(2) == 0, draw(2) == 0};
  shape.layouts = draw(2) == 0 && options_.taken_over && !reduces(shape.what);
  shape.seed = state_;
}

/// Cases in which the MPI library's own call fails.
void Grid::avoidKnownFaults(Shape& shape, const Communicator& where) const {
  // Open MPI 4.1.4 overruns its stack when a message is cut inside an element of 32 bytes.
  if (shape.layouts && base(shape).size > 16) shape.count = std::min(shape.count, 1);
#ifdef MPICH
  // MPICH 4.0.2 reports truncation where much of a type with holes is sent.
  if (base(shape).padded) shape.count = std::min(shape.count, shape.layouts ? 1 : 7);
  // Its Allgatherv on one rank ignores the displacement of the block.
  if (shape.what == Collective::Allgatherv && where.size == 1) shape.spread.gaps = false;
  // Its Reduce of more than 2048 bytes to a root other than 0 reads from MPI_IN_PLACE.
  if (shape.what == Collective::Reduce && shape.in_place && shape.count * base(shape).size > 2048) {
    shape.root = 0;
  }
  // Its Reduce_scatter of many elements in place copies a block onto itself, which it refuses, if
  // the blocks of all ranks before are empty.
  if (shape.what == Collective::Reduce_scatter && shape.in_place && shape.count > 10000) {
    shape.spread.uneven = false;
  }
#endif
  static_cast<void>(where);
}

Form Grid::formThatWorks(const Shape& shape, Form form) const {
  // The call is passed on, and MPICH 4.0.2's nonblocking calls give wrong results.
  if (reduces(shape.what) && base(shape).type == MPI_LONG_DOUBLE_INT) return Form::blocking;
  // Open MPI 4.1.4 hangs.
  if (shape.what == Collective::Alltoallv && shape.in_place && !options_.taken_over) {
    return Form::blocking;
  }
  return form;
}

/// MPICH's ranks never yield the processor while they wait: with more ranks than processors one
/// blocking call takes tens of milliseconds.
Form Grid::originalForm(const Shape& shape, const Communicator& where) const {
#ifdef MPICH
  if (where.size > 2) return formThatWorks(shape, Form::test);
#endif
  static_cast<void>(shape), static_cast<void>(where);
  return Form::blocking;
}

void Grid::run(Shape shape, Form wanted, const Communicator& where) {
  const bool by_profiling_name = draw(4) == 0;
  if (listed_++ % options_.parts != options_.part) return;
  avoidKnownFaults(shape, where);
  const Form form = formThatWorks(shape, wanted);
  Case one(types_, shape, where);
  const auto large = static_cast<Large>(mix(~shape.seed) % 3);
  const bool is_large = large == Large::all || (large == Large::odd && where.rank % 2 == 1);
  if (is_large) one.useLargeCounts();
  progress_.begin(name(form) + one.describe() + (is_large ? ", large-count form" : ""));
  const int expected = callInForm(original(), one.expected(), originalForm(shape, where));
  const Library& library = by_profiling_name ? calledByProfilingName() : called();
  const int got = callInForm(library, one.actual(), form);
  std::string difference = one.difference();
  if (errorClass(expected) != errorClass(got)) {
    difference = "error class " + std::to_string(errorClass(expected)) + " expected, got " +
                 std::to_string(errorClass(got));
  }
  progress_.end(rondo::test::name(shape.what), difference);
}

void Grid::communicators(const Communicator& where) {
  for (const Collective what : kCollectives) {
    for (const Form form : kForms) {
      for (const bool in_place : {false, true}) {
        for (const int count : {0, 1, 101}) {
          if (in_place && !hasInPlace(what)) continue;
          Shape shape{what};
          shape.in_place = in_place;
          shape.count = count;
          drawType(shape);
          drawRest(shape, where);
          run(shape, form, where);
        }
      }
    }
  }
}

void Grid::typesAndOperators(const Communicator& where) {
  for (std::size_t base = 0; base < types_.bases().size(); ++base) {
    const std::vector<Operator> operators = types_.operators(types_.bases()[base]);
    for (const Collective what : kCollectives) {
      if (what == Collective::Barrier) continue;
      const std::size_t variants = reduces(what) ? operators.size() : 1;
      for (std::size_t i = 0; i < variants; ++i) {
        for (const bool immediate : {false, true}) {
          Shape shape{what, base};
          if (reduces(what)) shape.op = operators[i];
          shape.in_place = draw(2) == 0 && hasInPlace(what);
          shape.count = std::array<int, 4>{1, 7, 101, 1021}[static_cast<std::size_t>(draw(4))];
          drawRest(shape, where);
          const Form later = kForms[static_cast<std::size_t>(1 + draw(2))];
          run(shape, immediate ? later : Form::blocking, where);
        }
      }
    }
  }
}

void Grid::largeCounts(const Communicator& where) {
  for (std::size_t base = 0; base < types_.bases().size(); ++base) {
    const BaseType& type = types_.bases()[base];
    if (type.type != MPI_INT && type.type != MPI_DOUBLE && type.type != MPI_BYTE) continue;
    const std::vector<Operator> operators = types_.operators(type);
    for (const Collective what : kCollectives) {
      Shape shape{what, base, operators[static_cast<std::size_t>(draw(3))]};
      shape.in_place = draw(2) == 0 && hasInPlace(what);
      drawRest(shape, where);
      // One block, or one for every rank: about the same number of elements in all.
      const bool one_block = what == Collective::Allreduce || what == Collective::Reduce ||
                             what == Collective::Scan || what == Collective::Exscan ||
                             what == Collective::Bcast;
      shape.count = (one_block ? 300007 : 300007 / where.size) / (shape.layouts ? 6 : 1);
      run(shape, kForms[static_cast<std::size_t>(draw(3))], where);
    }
  }
}

} // namespace

int main(int argc, char** argv) {
  const Options options = parse(argc, argv);
  MPI_Init(&argc, &argv);
  bool same = false;
  {
    const Communicators communicators;
    const Communicator& world = communicators.all()[0];
    const Datatypes types;
    Progress progress(world.rank);
    // A blocking call makes the counterpart; in_flight.cc tests nonblocking calls before it.
    for (const Communicator& where : communicators.all()) MPI_Barrier(where.comm);
    for (int pass = 0; pass < options.passes; ++pass) {
      const std::uint64_t seed = mix(options.seed + static_cast<std::uint64_t>(pass));
      Grid grid(types, progress, options, ~seed);
      if (!options.large) {
        for (const Communicator& where : communicators.all()) {
          Grid(types, progress, options, seed).communicators(where);
        }
        grid.typesAndOperators(world);
      }
      grid.largeCounts(world);
    }
    checkIntercommunicator(world, progress);
    same = progress.report("compat_mpi_grid");
  }
  MPI_Finalize();
  return same ? 0 : 1;
}
