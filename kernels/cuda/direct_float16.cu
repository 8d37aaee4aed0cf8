// Direct kernels of float16.
#include "kernels/cuda/direct_rows.h"

namespace rondo::cuda {

const DirectTable& rows_of_float16() {
  static const DirectTable rows = make_rows<DataType::kFloat16, false>();
  return rows;
}

}  // namespace rondo::cuda
