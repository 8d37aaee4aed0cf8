// Checks of plain arguments, with NCCL's texts. function is the name without its prefix.
#pragma once

#include "base/result.h"

namespace rondo::api {

inline Done not_null(const void* pointer, const char* function, const char* argument) {
  if (pointer != nullptr) return done();
  return fail(Status::kInvalidArgument, "{} : {} argument is NULL", function, argument);
}

inline Done root_in_range(int root, int ranks, const char* function) {
  if (root >= 0 && root < ranks) return done();
  return fail(Status::kInvalidArgument, "{} : invalid root {} (root should be in the 0..{} range)",
              function, root, ranks - 1);
}

inline Done rank_in_range(int rank, int ranks) {
  if (ranks >= 1 && rank >= 0 && rank < ranks) return done();
  return fail(Status::kInvalidArgument, "Invalid rank requested : {}/{}", rank, ranks);
}

}  // namespace rondo::api
