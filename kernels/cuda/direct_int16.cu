// Direct kernels of int16 and uint16.
#include "kernels/cuda/direct_rows.h"

namespace rondo::cuda {

const DirectTable& rows_of_int16() {
  static const DirectTable rows = make_rows<DataType::kInt16, true>();
  return rows;
}

const DirectTable& rows_of_uint16() {
  static const DirectTable rows = make_rows<DataType::kUint16, false>();
  return rows;
}

}  // namespace rondo::cuda
