// Direct kernels of float8e4m3.
#include "kernels/cuda/direct_rows.h"

namespace rondo::cuda {

const DirectTable& rows_of_float8e4m3() {
  static const DirectTable rows = make_rows<DataType::kFloat8e4m3, false>();
  return rows;
}

}  // namespace rondo::cuda
