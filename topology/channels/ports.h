// By which ports the channels of a host come in and leave, where there are several hosts.
#pragma once

#include <cstdint>

namespace rondo::topology {

// The values of NCCL_CROSS_NIC.
enum class PortUse : std::uint8_t {
  kSame = 0,   // by the same port, so that each network of a kind ("rail") stays by itself
  kPairs = 2,  // by any two. Every other host turns its ways round, so that rails meet themselves
};

}  // namespace rondo::topology
