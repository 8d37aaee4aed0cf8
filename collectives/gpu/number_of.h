// number_of(seen, one): index of `one` among all different values, in order of first appearance. A
// new value is added. Cost: a search among them.
//
//   number_of(hosts, records.hosts[r])   // 0, 0, 1, 1 where ranks 2 and 3 are on another host
#pragma once

#include <map>

namespace rondo::gpu {

template <class T>
using Numbers = std::map<T, int>;  // index by value

template <class T>
int number_of(Numbers<T>& seen, const T& one) {
  return seen.try_emplace(one, static_cast<int>(seen.size())).first->second;
}

}  // namespace rondo::gpu
