#include "base/result.h"

#include <cstring>

namespace rondo {

Error fail_errno_text(int error_number, std::string what) {
  return Error{Status::kSystemError, what + ": " + std::strerror(error_number)};
}

}  // namespace rondo
