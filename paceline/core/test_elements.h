// For tests: elements of types that have no C++ type, too.
#pragma once

#include "paceline/core/half.h"
#include "paceline/core/tensor_view.h"

namespace paceline {

inline void put(TensorView data, size_t index, double value) {
  switch (data.dtype) {
    case DType::f32:
      data.as<float>()[index] = static_cast<float>(value);
      return;
    case DType::f64:
      data.as<double>()[index] = value;
      return;
    case DType::i32:
      data.as<int32_t>()[index] = static_cast<int32_t>(value);
      return;
    case DType::i64:
      data.as<int64_t>()[index] = static_cast<int64_t>(value);
      return;
    case DType::f16:
      static_cast<uint16_t*>(data.data)[index] = f16_from_float(static_cast<float>(value));
      return;
    case DType::bf16:
      static_cast<uint16_t*>(data.data)[index] = bf16_from_float(static_cast<float>(value));
      return;
    case DType::u8:
      data.as<uint8_t>()[index] = static_cast<uint8_t>(value);
  }
}

}  // namespace paceline
