#include "paceline/core/resource_failure.h"

#include <unistd.h>

#include <cstdlib>
#include <new>
#include <string_view>
#include <system_error>

#include "paceline/core/error.h"

namespace paceline {
namespace {

constexpr const char* kMemory =
    "the machine has no more memory for this process; use a smaller model or batch (batch.global, batch.micro), fewer "
    "ranks, or raise the limit (ulimit -v, the container's memory)";
constexpr const char* kThreads =
    "a thread could not be started; use fewer threads or ranks, or raise the limit (ulimit -u, ulimit -v, the "
    "container's pids)";

bool is_memory(const std::exception& failure) {
  if (dynamic_cast<const std::bad_alloc*>(&failure) != nullptr) return true;
  const auto* const system = dynamic_cast<const std::system_error*>(&failure);
  if (system != nullptr && system->code() == std::errc::not_enough_memory) return true;
  // libtorch's class is not known here, its text is.
  return std::string_view(failure.what()).find("DefaultCPUAllocator: can't allocate memory") != std::string_view::npos;
}

bool is_threads(const std::exception& failure) {
  const auto* const system = dynamic_cast<const std::system_error*>(&failure);
  return system != nullptr && system->code() == std::errc::resource_unavailable_try_again;
}

std::terminate_handler before = nullptr;  // what end_in_words_without_resources() has replaced

const char* words_for(const std::exception& failure) {
  return is_memory(failure) ? kMemory : is_threads(failure) ? kThreads : nullptr;
}

void tell(std::string_view text) { [[maybe_unused]] const ssize_t told = ::write(2, text.data(), text.size()); }

// Allocates nothing: there may be no memory.
[[noreturn]] void terminate() {
  if (const std::exception_ptr thrown = std::current_exception()) {
    try {
      std::rethrow_exception(thrown);
    } catch (const std::exception& failure) {
      if (const char* const words = words_for(failure)) {
        tell("paceline: ");
        tell(words);
        tell("\n");
        ::_exit(static_cast<int>(ExitCode::file));
      }
    } catch (...) {  // the handler before says so
    }
  }
  if (before != nullptr) before();
  std::abort();
}

}  // namespace

std::optional<std::string> resource_failure(const std::exception& failure) {
  const char* const words = words_for(failure);
  return words != nullptr ? std::optional<std::string>(words) : std::nullopt;
}

void end_in_words_without_resources() { before = std::set_terminate(terminate); }

}  // namespace paceline
