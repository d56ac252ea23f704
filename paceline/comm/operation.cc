#include "paceline/comm/operation.h"

#include <fmt/format.h>

#include <array>

namespace paceline {
namespace {

template <class Enum, size_t Names>
std::string_view name_in(const std::array<std::string_view, Names>& names, Enum value) {
  const auto index = static_cast<size_t>(value);
  return index < Names ? names[index] : "unknown";  // it may have come from another process
}

// splitmix64's finalizer: every bit of the input changes half of the output's.
uint64_t mix(uint64_t bits) {
  bits += 0x9E3779B97F4A7C15u;
  bits = (bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9u;
  bits = (bits ^ (bits >> 27)) * 0x94D049BB133111EBu;
  return bits ^ (bits >> 31);
}

bool has_data(Verb verb) {
  return verb != Verb::none && verb != Verb::barrier && verb != Verb::all_to_all && verb != Verb::split;
}

std::string_view role_of_peer(Verb verb) {
  if (verb == Verb::broadcast || verb == Verb::receive) return "from";
  return verb == Verb::send ? "to" : "";
}

}  // namespace

std::string_view name_of(ReduceOp op) {
  static constexpr std::array<std::string_view, 3> kNames = {"sum", "max", "min"};
  return name_in(kNames, op);
}

std::string_view name_of(Verb verb) {
  static constexpr std::array<std::string_view, 10> kNames = {
      "none",       "barrier",        "broadcast", "all_gather", "all_to_all",
      "all_reduce", "reduce_scatter", "split",     "send",       "receive"};
  return name_in(kNames, verb);
}

Operation from_words(const OperationWords& words) {
  if (words.what == 0) return {};
  return {.verb = static_cast<Verb>(words.what & 0xFF),
          .dtype = static_cast<DType>(words.what >> 8 & 0xFF),
          .reduce = static_cast<ReduceOp>(words.what >> 16 & 0xFF),
          .peer = static_cast<int32_t>(words.what >> 32),
          .count = words.count,
          .sequence = words.sequence};
}

uint64_t code_of(const Operation& operation) {
  const OperationWords words = to_words(operation);
  return mix(mix(mix(words.what) ^ words.count) ^ words.sequence);
}

std::string to_text(const Operation& operation) {
  if (operation.verb == Verb::none) return "no operation";
  std::string text(name_of(operation.verb));
  if (operation.sequence > 0) text += fmt::format(" #{}", operation.sequence);
  if (!has_data(operation.verb)) return text;
  const bool reduces = operation.verb == Verb::all_reduce || operation.verb == Verb::reduce_scatter;
  text += fmt::format(" ({}{} {}, {} byte{}", reduces ? fmt::format("{} of ", name_of(operation.reduce)) : "",
                      operation.count, name_of(operation.dtype), operation.bytes(), operation.bytes() == 1 ? "" : "s");
  const std::string_view role = role_of_peer(operation.verb);
  if (!role.empty()) text += fmt::format(", {} rank {}", role, operation.peer);
  return text + ")";
}

}  // namespace paceline
