// Direct kernels of float64.
#include "kernels/cuda/direct_rows.h"

namespace rondo::cuda {

const DirectTable& rows_of_float64() {
  static const DirectTable rows = make_rows<DataType::kFloat64, false>();
  return rows;
}

}  // namespace rondo::cuda
