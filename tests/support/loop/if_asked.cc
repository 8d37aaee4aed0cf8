// RONDO_TEST_NETWORK=Loop: whatever this program tests between hosts goes over the loop network.
#include <cstdlib>
#include <string_view>

#include "tests/support/loop/add_loop_network.h"
#include "tests/support/loop/loop_network.h"

namespace rondo::test {
namespace {

[[maybe_unused]] const bool added = [] {
  const char* const wanted = std::getenv("RONDO_TEST_NETWORK");
  if (wanted == nullptr || std::string_view(wanted) != LoopNetwork::kName) return false;
  add_loop_network();
  return true;
}();

}  // namespace
}  // namespace rondo::test
