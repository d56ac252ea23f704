#include "paceline/core/sha256.h"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <vector>

#include "paceline/core/check.h"
#include "paceline/core/error.h"

namespace paceline {

struct Sha256::Context {
  EVP_MD_CTX* evp = EVP_MD_CTX_new();
  ~Context() { EVP_MD_CTX_free(evp); }
};

Sha256::Sha256() : context_(std::make_unique<Context>()) {
  CHECK_EQ(EVP_DigestInit_ex(context_->evp, EVP_sha256(), nullptr), 1);
}
Sha256::~Sha256() = default;

void Sha256::update(const void* data, size_t bytes) { CHECK_EQ(EVP_DigestUpdate(context_->evp, data, bytes), 1); }

std::string Sha256::hex() {
  unsigned char digest[32];
  CHECK_EQ(EVP_DigestFinal_ex(context_->evp, digest, nullptr), 1);
  std::string text;
  for (const unsigned char byte : digest) text += fmt::format("{:02x}", byte);
  return text;
}

std::string sha256_of_file(const std::filesystem::path& file) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> stream(std::fopen(file.c_str(), "rbe"), std::fclose);
  Sha256 hash;
  std::vector<char> block(1 << 20);
  while (stream) {
    const size_t got = std::fread(block.data(), 1, block.size(), stream.get());
    hash.update(block.data(), got);
    if (got == block.size()) continue;
    if (std::ferror(stream.get()) != 0) break;
    return hash.hex();
  }
  throw FileError(fmt::format("cannot read {}: {}", file.string(), std::strerror(errno)));
}

}  // namespace paceline
