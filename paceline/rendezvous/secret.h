// Secret: what the ranks of a run know and strangers do not. It is proved, never sent; it is never printed.
#pragma once

#include <optional>
#include <string>

#include "paceline/rendezvous/identity.h"

namespace paceline {

class Secret {
 public:
  explicit Secret(std::string text) : text_(std::move(text)) {}

  static Secret random();  // 256 bits from the kernel
  // From PACELINE_SECRET, or the file that PACELINE_SECRET_FILE names.
  static std::optional<Secret> from_environment(const Environment& environment);

  // Proves to know the secret: HMAC-SHA-256 over the parts, in hex. Each part is hashed with its length.
  std::string prove(std::initializer_list<std::string_view> parts) const;

  const std::string& reveal() const { return text_; }  // to hand it to a process that is started

 private:
  std::string text_;
};

std::string random_nonce();                                 // 128 bits, hex
bool equal_proofs(std::string_view a, std::string_view b);  // in constant time

}  // namespace paceline
