// Parses the options of `rondo train` from a line of text, and offers them to other commands.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

#include "tools/train.h"

namespace CLI {
class App;
}

namespace rondo::tools {

/// Adds the rows of the trainer's table of options that have these names.
void addTrainOptions(CLI::App& app, TrainOptions& options,
                     std::initializer_list<std::string_view> names);

/// Sets in `config` what the line says. Throws Error(invalid_argument) that says what is
/// wrong with it.
void parseTrain(const std::string& line, TrainConfig& config);

} // namespace rondo::tools
