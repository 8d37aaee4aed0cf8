// SPDX-License-Identifier: Apache-2.0
// Runs one body on several threads at once and joins them all.
#pragma once

#include <functional>
#include <thread>
#include <vector>

namespace rondo::test {

inline void on_threads(int n, const std::function<void(int thread)>& body) {
  std::vector<std::thread> threads;
  for (int t = 0; t < n; ++t) threads.emplace_back([&body, t] { body(t); });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace rondo::test
