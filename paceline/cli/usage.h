// What people read who ask for help, or whose command line is not understood.
#pragma once

#include <CLI/CLI.hpp>

#include <string>
#include <vector>

namespace paceline {

// Names required options in the line of usage.
class HelpText : public CLI::Formatter {
 public:
  std::string make_usage(const CLI::App* app, std::string name) const override;
};

// "paceline help train" as "paceline train --help"; other command lines as they are. With the program's name.
std::vector<std::string> with_help_as_option(std::vector<std::string> arguments);

// One line about a command line that could not be parsed, with what was probably meant: an option of the command, or a
// key of the recipe where the command takes --set.
std::string what_is_wrong(const CLI::App& app, const CLI::ParseError& error, const std::vector<std::string>& arguments);

// The command, or the command of a command, that the arguments name.
const CLI::App& command_of(const CLI::App& app);

}  // namespace paceline
