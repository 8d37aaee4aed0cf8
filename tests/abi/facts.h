// SPDX-License-Identifier: Apache-2.0
// The facts of an nccl.h: every size, offset, number and signature, as rows of text.
//
// facts.cc makes the rows. It is compiled once against each header, so that no translation unit
// includes two of them; compare_headers.cc compares the tables.
#pragma once

#include <string>
#include <vector>

struct Fact {
  std::string what;   // "offsetof(ncclConfig_t, blocking)"
  std::string value;  // "16"
};

using Facts = std::vector<Fact>;
