// NicFilter: the ports of RDMA NICs that a host's ranks may use, by NCCL_IB_HCA.
//
// The text is a list of prefixes of device names with commas, each with an optional ":PORT". A
// leading '^' excludes them, '=' means exact names, "^=" excludes exact names; empty: all ports.
// Text after a second colon (NCCL's rails and planes) is ignored. Cost: a comparison with each name
// per port.
//
//   RONDO_TRY(const NicFilter filter, NicFilter::parse("mlx5_0,mlx5_1:2"));
//   if (filter.admits("mlx5_1", 2)) ...
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace rondo::topology {

class NicFilter {
 public:
  struct Name {
    std::string device;
    int port = 0;  // 0: any port
  };

  // kInvalidUsage: an empty name, or a port that is not a number from 1 to 255.
  static Result<NicFilter> parse(std::string_view text);

  const std::vector<Name>& names() const { return names_; }
  bool excludes() const { return excludes_; }
  // port: 0 if it is unknown, which fits any port.
  bool fits(const Name& name, std::string_view device, int port) const;
  bool admits(std::string_view device, int port) const;

 private:
  std::vector<Name> names_;
  bool excludes_ = false, exact_ = false;
};

}  // namespace rondo::topology
