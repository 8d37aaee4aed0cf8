// Direct kernels of int32 and uint32.
#include "kernels/cuda/direct_rows.h"

namespace rondo::cuda {

const DirectTable& rows_of_int32() {
  static const DirectTable rows = make_rows<DataType::kInt32, true>();
  return rows;
}

const DirectTable& rows_of_uint32() {
  static const DirectTable rows = make_rows<DataType::kUint32, false>();
  return rows;
}

}  // namespace rondo::cuda
