// SPDX-License-Identifier: Apache-2.0
// The build without <ucp/api/ucp.h>.
#include "transport/ucx/presence.h"

namespace rondo::ucx {
namespace {

Error no_headers() {
  return fail(StatusCode::kSystemError,
              "this library was built without UCX: build it where libucx-dev (ucp/api/ucp.h) is "
              "installed");
}

}  // namespace

Result<std::string> library_version() { return no_headers(); }

Result<std::unique_ptr<net::Network>> open_network(const net::PortOptions&) { return no_headers(); }

}  // namespace rondo::ucx
