// Direct kernels of int8 and uint8.
#include "kernels/cuda/direct_rows.h"

namespace rondo::cuda {

const DirectTable& rows_of_int8() {
  static const DirectTable rows = make_rows<DataType::kInt8, true>();
  return rows;
}

const DirectTable& rows_of_uint8() {
  static const DirectTable rows = make_rows<DataType::kUint8, false>();
  return rows;
}

}  // namespace rondo::cuda
