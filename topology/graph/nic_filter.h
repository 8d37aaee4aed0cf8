// NicFilter: which ports of RDMA adapters a host's ranks may use, as NCCL_IB_HCA says.
//
// Prefixes of device names with commas, each with ":PORT" behind it or not; a leading '^' excludes
// them, '=' asks for exact names, "^=" excludes exact names; empty: all. What follows a second
// colon (NCCL's rails and planes) does not matter. Cost: a look at each name a port.
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
    int port = 0;  // 0: any
  };

  // kInvalidUsage: an empty name, or a port that is no number from 1 to 255.
  static Result<NicFilter> parse(std::string_view text);

  const std::vector<Name>& names() const { return names_; }
  bool excludes() const { return excludes_; }
  // port: 0 where it is not known, which fits any.
  bool fits(const Name& name, std::string_view device, int port) const;
  bool admits(std::string_view device, int port) const;

 private:
  std::vector<Name> names_;
  bool excludes_ = false, exact_ = false;
};

}  // namespace rondo::topology
