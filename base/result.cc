// SPDX-License-Identifier: Apache-2.0
#include "base/result.h"

#include <cstring>
#include <utility>

namespace rondo {

Error fail_errno_text(int error_number, std::string what) {
  return Error{StatusCode::kSystemError, std::move(what) + ": " + std::strerror(error_number)};
}

}  // namespace rondo
