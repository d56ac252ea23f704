#include "paceline/rendezvous/secret.h"

#include <fmt/format.h>

#include "paceline/core/error.h"
#include "paceline/core/file.h"
#include "paceline/core/hmac.h"

namespace paceline {
namespace {

std::string without_line_end(std::string text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.pop_back();
  return text;
}

}  // namespace

Secret Secret::random() { return Secret(random_hex(32)); }

std::optional<Secret> Secret::from_environment(const Environment& environment) {
  if (const auto text = environment("PACELINE_SECRET")) {
    if (text->empty())
      throw UsageError("PACELINE_SECRET is empty: anybody could guess it; unset it or give it a value");
    return Secret(*text);
  }
  const auto file = environment("PACELINE_SECRET_FILE");
  if (!file) return {};
  std::string text = without_line_end(read_file(*file));
  if (text.empty())
    throw UsageError(fmt::format("PACELINE_SECRET_FILE is \"{}\", which is empty: put the run's secret there", *file));
  return Secret(std::move(text));
}

std::string Secret::prove(std::initializer_list<std::string_view> parts) const {
  std::string message;  // with lengths, or ("ab", "c") would prove the same as ("a", "bc")
  for (const std::string_view part : parts) {
    message += fmt::format("{}:", part.size());
    message += part;
  }
  return hmac_sha256_hex(text_, message);
}

std::string random_nonce() { return random_hex(16); }

bool equal_proofs(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  unsigned char difference = 0;
  for (size_t i = 0; i < a.size(); ++i) difference |= static_cast<unsigned char>(a[i] ^ b[i]);
  return difference == 0;
}

}  // namespace paceline
