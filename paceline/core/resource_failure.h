// What the machine refused to give, in a sentence that says what to do: memory, threads.
#pragma once

#include <exception>
#include <optional>
#include <string>

namespace paceline {

// Nothing: the failure is of another kind.
std::optional<std::string> resource_failure(const std::exception& failure);

// From now on an exception that leaves a thread or a noexcept function for such a reason ends the process with that
// sentence and ExitCode::file; any other aborts as before.
void end_in_words_without_resources();

}  // namespace paceline
