// Open files: how many this process may have, and whether that is enough for what it is about to do.
#pragma once

#include <cstddef>
#include <string>

namespace paceline {

size_t open_files();  // that this process has now

// Raises the limit to `count`, or as far as the hard limit allows, and returns what it is then. The usual one is 1,024.
size_t allow_open_files(size_t count);

// Makes sure that `more` files (sockets, pipes) can be opened besides those that are. Throws UsageError with the limit
// that `purpose` ("a run of 8 ranks") needs: without it the process would fail in the middle, or wait for ever.
void require_open_files(size_t more, const std::string& purpose);

}  // namespace paceline
