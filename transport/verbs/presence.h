// Whether this process can use RDMA devices by libibverbs. The same in a build without the
// library's header, whose answer is that it was one.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace rondo::verbs {

// The devices that libibverbs offers; those of read_ports() that it does not have lack a provider.
// An error says why there are none of any kind: no library, an unsuited one, a build without it.
Result<std::vector<std::string>> offered_devices();

}  // namespace rondo::verbs
