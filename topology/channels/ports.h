// The ports by which channels enter and leave a host, where there are several hosts.
#pragma once

#include <cstdint>

namespace rondo::topology {

// The values of NCCL_CROSS_NIC.
enum class PortUse : std::uint8_t {
  kSame = 0,   // the same port, so that the ports' networks ("rails") stay separate
  kPairs = 2,  // any two ports; every other host is passed in reverse, so that rails match
};

}  // namespace rondo::topology
