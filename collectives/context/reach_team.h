// SPDX-License-Identifier: Apache-2.0
// Reach teams: ranks that load and store each other's memory (NCCL's LSA teams). All teams have the
// same number of ranks, and a team is that many consecutive ranks: 0 to n - 1, n to 2n - 1, ...
//
// reach_team(): n, from the pairs of ranks that reach each other. Guarantees: n divides the number
// of ranks, and within each team every rank reaches every other one. Ranks that take turns on two
// hosts have teams of one rank. Cost: a query for each pair within a run of neighbours.
//
//   reach_team(8, [&](int a, int b) { return host_of[a] == host_of[b]; })   // two hosts of 4: 4
#pragma once

#include <numeric>

namespace rondo {

template <class Reaches>
int reach_team(int ranks, const Reaches& reaches) {
  int team = 0, first = 0;  // first: of the run of neighbours that rank r may continue
  for (int r = 1; r <= ranks; ++r) {
    bool continues = r < ranks;
    for (int other = first; continues && other < r; ++other) continues = reaches(other, r);
    if (continues) continue;
    team = std::gcd(team, r - first);
    first = r;
  }
  return team;
}

}  // namespace rondo
