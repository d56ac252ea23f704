#include "paceline/comm/memory.h"

#include <cstdlib>
#include <cstring>
#include <new>

namespace paceline {

Memory allocate_private(size_t bytes) {
  constexpr size_t kAlignment = 64;
  const size_t rounded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  if (rounded == 0) return {};
  void* const data = std::aligned_alloc(kAlignment, rounded);
  if (data == nullptr) throw std::bad_alloc();
  std::memset(data, 0, rounded);
  return {data, bytes, [data] { std::free(data); }};
}

}  // namespace paceline
