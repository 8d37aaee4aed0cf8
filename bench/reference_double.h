// The judge's computation for random and special floats: element by element in double.
#pragma once

#include "bench/reference.h"

namespace rondo::bench {

// The exact input element of a rank; for float types.
double float_input(const Recipe& recipe, int rank, std::size_t index);

struct Expected {
  double value;
  double tolerance;  // 0: must be equal (NaN: must be NaN)
  bool either_zero;  // zeros of both signs are right
};
Expected float_expected(const Recipe& recipe, std::size_t index);

}  // namespace rondo::bench
