// The named checks of the semantics program, and their common functions.
#pragma once

#include <mpi.h>

#include <string>

namespace rondo::test {

/// Ends the job with a message unless `holds`.
void require(bool holds, const std::string& what);
int rankIn(MPI_Comm comm);
int sizeOf(MPI_Comm comm);
/// The error class of a code.
int errorClass(int code);
/// Path of the program's file.
std::string programPath();

// semantics_order.cc
void checkOrdering();
void checkBetween();
void checkApart();
void checkThreads();
void checkFinalize();
void checkFreed();
void checkUnmatched();
void checkGetStatus();
void checkStopped();
void checkDescriptors();
// semantics_data.cc
void checkColumns();
void checkBottom();
void checkUnsigned();
void checkLate();
void checkNan();
void checkContiguous();
void checkLargeElement();
void checkAttributes();
// semantics_groups.cc
void checkImmediate();
void checkIdup();
void checkSpawned();
void checkChild();
void checkMany();
void checkCallback();
// semantics_refused.cc
void checkRefused();
void checkAliased();
void checkNothing();
// semantics_errors.cc
void checkErrors();
void checkStatistics();
void checkHandler();
void checkTruncate();
void checkFreedError();
void checkFatal();
void checkKilled();
void checkAbort();
void checkUnfinalized();
void checkExit();

} // namespace rondo::test
