// number_of(seen, one): the place of `one` among all that differ, in the order in which they came.
// A new one is added. Costs a look at each.
//
//   number_of(hosts, records.hosts[r])   // 0, 0, 1, 1 where ranks 2 and 3 are on another host
#pragma once

#include <algorithm>
#include <vector>

namespace rondo::gpu {

template <class T>
int number_of(std::vector<T>& seen, const T& one) {
  auto at = std::find(seen.begin(), seen.end(), one);
  if (at == seen.end()) at = seen.insert(seen.end(), one);
  return static_cast<int>(at - seen.begin());
}

}  // namespace rondo::gpu
