// What there is to know about an nccl.h: every size, offset, number and signature, as rows of text.
//
// facts.cc makes the rows and is compiled once against each header, so that the headers never meet
// in one translation unit; compare_headers.cc compares the tables.
#pragma once

#include <string>
#include <vector>

struct Fact {
  std::string what;   // "offsetof(ncclConfig_t, blocking)"
  std::string value;  // "16"
};

using Facts = std::vector<Fact>;
