// Direct kernels of float8e5m2.
#include "kernels/cuda/direct_rows.h"

namespace rondo::cuda {

const DirectTable& rows_of_float8e5m2() {
  static const DirectTable rows = make_rows<DataType::kFloat8e5m2, false>();
  return rows;
}

}  // namespace rondo::cuda
