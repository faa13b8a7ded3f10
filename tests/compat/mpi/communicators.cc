// Makes and frees the communicators of the grid.
#include "communicators.h"

namespace rondo::test {

void Communicators::add(const char* name, MPI_Comm comm) {
  if (comm == MPI_COMM_NULL) return;
  Communicator made{name, comm};
  MPI_Comm_rank(comm, &made.rank);
  MPI_Comm_size(comm, &made.size);
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  all_.push_back(made);
}

Communicators::Communicators() {
  add("world", MPI_COMM_WORLD);
  const Communicator world = all_[0];
  MPI_Comm made = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &made);
  add("dup", made);
  MPI_Comm_split(MPI_COMM_WORLD, world.rank % 2, world.rank, &made);
  add("odd_even", made);
  MPI_Comm_split(MPI_COMM_WORLD, 0, -world.rank, &made);
  add("reversed", made);

  // By MPI_Comm_create, without the first rank, so that the other ranks' numbers change.
  MPI_Group everyone = MPI_GROUP_NULL;
  MPI_Group some = MPI_GROUP_NULL;
  const int left_out = 0;
  MPI_Comm_group(MPI_COMM_WORLD, &everyone);
  MPI_Group_excl(everyone, world.size > 1 ? 1 : 0, &left_out, &some);
  MPI_Comm_create(MPI_COMM_WORLD, some, &made);
  add("subset", made);
  MPI_Group_free(&some);
  MPI_Group_free(&everyone);

  const int periodic = 1;
  MPI_Cart_create(MPI_COMM_WORLD, 1, &world.size, &periodic, 1, &made);
  add("cart", made);
  add("self", MPI_COMM_SELF);
}

Communicators::~Communicators() {
  for (Communicator& each : all_) {
    if (each.comm != MPI_COMM_WORLD && each.comm != MPI_COMM_SELF) MPI_Comm_free(&each.comm);
  }
}

const Communicator* Communicators::find(const std::string& name) const {
  for (const Communicator& each : all_) {
    if (each.name == name) return &each;
  }
  return nullptr;
}

} // namespace rondo::test
