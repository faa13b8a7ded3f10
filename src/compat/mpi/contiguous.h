// Finds out which derived datatypes are contiguous.
#pragma once

#include "compat/mpi/mpi_library.h"

namespace rondo::compat {

/// Whether an element of the type, which has `size` bytes of data, is these bytes in the order of
/// the type map, without gaps. The caller has checked that the type begins at 0 and that its extent
/// is its size. All constructors but MPI_Type_create_darray are analysed. Takes a few calls of the
/// MPI library for each type that the type was made of. Throws MpiFailure.
bool contiguous(MPI_Datatype type, MPI_Count size);

} // namespace rondo::compat
