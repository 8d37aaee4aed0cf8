// Direct kernels of int64 and uint64.
#include "kernels/cuda/direct_rows.h"

namespace rondo::cuda {

const DirectTable& rows_of_int64() {
  static const DirectTable rows = make_rows<DataType::kInt64, true>();
  return rows;
}

const DirectTable& rows_of_uint64() {
  static const DirectTable rows = make_rows<DataType::kUint64, false>();
  return rows;
}

}  // namespace rondo::cuda
