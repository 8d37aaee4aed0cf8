// Direct kernels of float32.
#include "kernels/cuda/direct_rows.h"

namespace rondo::cuda {

const DirectTable& rows_of_float32() {
  static const DirectTable rows = make_rows<DataType::kFloat32, false>();
  return rows;
}

}  // namespace rondo::cuda
