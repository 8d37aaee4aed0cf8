// number_of(seen, one): the place of `one` among all that differ, in the order in which they came.
// A new one is added. Costs a search among these.
//
//   number_of(hosts, records.hosts[r])   // 0, 0, 1, 1 where ranks 2 and 3 are on another host
#pragma once

#include <map>

namespace rondo::gpu {

template <class T>
using Numbers = std::map<T, int>;  // of all that came

template <class T>
int number_of(Numbers<T>& seen, const T& one) {
  return seen.try_emplace(one, static_cast<int>(seen.size())).first->second;
}

}  // namespace rondo::gpu
