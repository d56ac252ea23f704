// The shapes of ResNet-50's parameters, for benchmarks of what works on all of them at once.
#pragma once

#include <cstdint>
#include <vector>

namespace paceline {

// Of ResNet-50 with 1000 classes, in torchvision's order.
inline std::vector<std::vector<int64_t>> resnet50_shapes() {
  std::vector<std::vector<int64_t>> shapes;
  const auto convolution = [&](int64_t out, int64_t in, int64_t kernel) {
    shapes.push_back({out, in, kernel, kernel});
    shapes.insert(shapes.end(), 2, {out});  // batch normalisation
  };
  convolution(64, 3, 7);
  int64_t in = 64;
  const int64_t blocks[] = {3, 4, 6, 3};
  for (int stage = 0; stage < 4; ++stage) {
    const int64_t width = int64_t{64} << stage;
    for (int64_t block = 0; block < blocks[stage]; ++block) {
      convolution(width, in, 1);
      convolution(width, width, 3);
      convolution(4 * width, width, 1);
      if (block == 0) convolution(4 * width, in, 1);
      in = 4 * width;
    }
  }
  shapes.push_back({1000, in});
  shapes.push_back({1000});
  return shapes;
}

}  // namespace paceline
