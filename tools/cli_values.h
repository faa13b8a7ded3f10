// Validators of option values. Their errors list the valid values.
#pragma once

#include <CLI/CLI.hpp>
#include <cstddef>
#include <string>
#include <vector>

#include "rondo/types.h"

namespace rondo::tools {

CLI::Validator byteCount();
CLI::Validator byteCounts();          ///< a comma list
CLI::Validator rankCounts(int limit); ///< "1-64"
CLI::Validator collectives();
CLI::Validator dataTypes();  ///< "all" or a comma list
CLI::Validator reduceOps();  ///< "all" or a comma list
CLI::Validator algorithms(); ///< "all" or a comma list
CLI::Validator transportNames();
/// Refuses nan, which CLI::Range() accepts.
CLI::Validator notNan();
/// Describes the transports, for an option's help.
std::string transportHelp();
/// Whether the transport works between threads of one process only.
bool needsThreads(const std::string& transport);

/// These throw Error(invalid_argument).
std::vector<std::size_t> parseByteCounts(const std::string& text);
std::vector<DataType> parseDataTypes(const std::string& text);
std::vector<ReduceOp> parseReduceOps(const std::string& text);

} // namespace rondo::tools
