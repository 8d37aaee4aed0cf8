// SPDX-License-Identifier: Apache-2.0
// with_enough_time(): repeats a test of a short deadline with longer ones while it fails, because
// on a busy machine not only the rank that the test holds up is late.
//
//   with_enough_time(500ms, [&](auto time) -> std::string { return ...; });  // "": as it should be
// Guarantees: fails with the last attempt's text if none up to a minute is right.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <string>

namespace rondo::test {

template <class Attempt>
void with_enough_time(std::chrono::milliseconds first, const Attempt& attempt) {
  std::string wrong;
  for (auto time = first; time <= std::chrono::minutes(1); time *= 2)
    if ((wrong = attempt(time)).empty()) return;
  ADD_FAILURE() << wrong;
}

}  // namespace rondo::test
