#include "paceline/core/hmac.h"

#include <fmt/format.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <sys/random.h>

#include <cerrno>
#include <span>
#include <vector>

#include "paceline/core/check.h"

namespace paceline {
namespace {

std::string hex(std::span<const unsigned char> bytes) {
  std::string text;
  for (const unsigned char byte : bytes) text += fmt::format("{:02x}", byte);
  return text;
}

}  // namespace

std::string hmac_sha256_hex(std::string_view key, std::string_view message) {
  unsigned char digest[32];
  unsigned int length = 0;
  const auto* text = reinterpret_cast<const unsigned char*>(message.data());
  const unsigned char* done =
      HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()), text, message.size(), digest, &length);
  CHECK_TRUE(done != nullptr && length == sizeof digest, "libcrypto gave no HMAC-SHA-256");
  return hex(digest);
}

std::string random_hex(size_t bytes) {
  std::vector<unsigned char> random(bytes);
  for (size_t have = 0; have < bytes;) {
    const ssize_t got = ::getrandom(random.data() + have, bytes - have, 0);
    if (got < 0 && errno == EINTR) continue;
    CHECK_GT(got, 0);
    have += static_cast<size_t>(got);
  }
  return hex(random);
}

}  // namespace paceline
