// Writes a process's record of calls to a file of JSON lines.
#pragma once

#include <chrono>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>

namespace rondo::observe {

/// Version of the format of dumps.
inline constexpr int kDumpVersion = 2;

/// Writes the record in `memory_file`, of this process or another one, to `to`. `reason`:
/// "failure", "SIGQUIT" or "request". `state`: of the process, as in /proc/PID/stat ('R', 'T',
/// ...). `last`: of each communicator, the calls that have ended are written only if they are among
/// the last so many. `more`: further members of the JSON header, each followed by a comma. Returns
/// 0, or the error number; EPROTO if the file is not a record of calls of this version. It believes
/// nothing that it reads: the file may change meanwhile. Async-signal-safe.
int writeDump(int memory_file, int to, const char* reason, char state,
              std::uint64_t last = ~std::uint64_t{0}, std::string_view more = {});

/// When the process made its record, in nanoseconds: `began_ns` of its dumps. It is in the names of
/// their files, because processes in different namespaces of a host may have the same number. 0:
/// the file is not a record of this version. Async-signal-safe.
std::uint64_t beganIn(int memory_file);

/// The jobs whose communicators are in the record; none if the file is not a record of this
/// version.
std::set<std::uint64_t> jobsIn(int memory_file);

/// Names the folder where this process writes dumps, and makes it (mode 0700); the first call
/// counts, and a relative name means the working folder of now. Warns if the folder cannot be
/// written. From then on SIGQUIT makes a dump, and has no other effect, unless the program handles
/// it. (Shells let programs in the background ignore it; that does not count.) A forked child
/// without a communicator of its own behaves as before this call.
void dumpInto(const std::string& folder);

/// Writes a dump into the folder, if there is one, or logs why it cannot. A thread of its own
/// writes the file. The caller waits for that for at most `delay`, and all callers together for at
/// most 200 ms. The process's end waits for unfinished dumps, for at most five seconds. A process
/// makes at most 8 of these dumps. Any thread.
void dumpFailure(std::chrono::milliseconds delay);

} // namespace rondo::observe
