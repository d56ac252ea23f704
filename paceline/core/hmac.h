// HMAC-SHA-256, and random bytes from the kernel: what proves to know a secret without sending it.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace paceline {

std::string hmac_sha256_hex(std::string_view key, std::string_view message);  // 64 lower-case digits

std::string random_hex(size_t bytes);  // two lower-case digits a byte; waits only in the first moments after a boot

}  // namespace paceline
