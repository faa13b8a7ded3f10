// The communicators of the grid, each made by another function.
#pragma once

#include <mpi.h>

#include <string>
#include <vector>

namespace rondo::test {

struct Communicator {
  std::string name;
  MPI_Comm comm = MPI_COMM_NULL;
  int rank = 0;
  int size = 0;
};

/// Makes the communicators that this rank is in; all return errors. Collective over MPI_COMM_WORLD.
class Communicators {
 public:
  Communicators();
  ~Communicators();
  Communicators(const Communicators&) = delete;
  Communicators& operator=(const Communicators&) = delete;

  const std::vector<Communicator>& all() const { return all_; }
  /// Null if this rank is not in it.
  const Communicator* find(const std::string& name) const;

 private:
  void add(const char* name, MPI_Comm comm);

  std::vector<Communicator> all_;
};

} // namespace rondo::test
