// Direct kernels of bfloat16.
#include "kernels/cuda/direct_rows.h"

namespace rondo::cuda {

const DirectTable& rows_of_bfloat16() {
  static const DirectTable rows = make_rows<DataType::kBfloat16, false>();
  return rows;
}

}  // namespace rondo::cuda
