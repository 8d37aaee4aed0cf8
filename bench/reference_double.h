// The judge's second way (random and special values): element by element in double.
#pragma once

#include "bench/reference.h"

namespace rondo::bench {

// A rank's input element, exactly; of a float type.
double float_input(const Recipe& recipe, int rank, std::size_t index);

struct Expected {
  double value;
  double tolerance;  // 0: must be equal (NaN: must be NaN)
  bool either_zero;  // the sign of a zero is free
};
Expected float_expected(const Recipe& recipe, std::size_t index);

}  // namespace rondo::bench
