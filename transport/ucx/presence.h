// Whether this process can use UCX. The same in a build without its headers, whose answer is that
// it was one.
#pragma once

#include <array>
#include <memory>
#include <string>

#include "base/result.h"
#include "transport/net/net.h"

namespace rondo::ucx {

// The library's version, as it says it. An error says why there is none: no library, an unsuited
// one, a build without it.
Result<std::string> library_version();

// UcxNetwork by the environment's variables, of rank `rank` of who holds the secret.
Result<std::unique_ptr<net::Network>> open_network(const std::array<std::byte, 32>& secret,
                                                   int rank, const std::string& purpose);

}  // namespace rondo::ucx
