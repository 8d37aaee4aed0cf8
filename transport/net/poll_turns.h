// PollTurns: when whoever drives a network looks which of its links can move.
//
// Whenever nothing moved; and now and then while one link keeps moving, or the others, and those
// that peers open meanwhile, would wait until it falls silent. Cost: one system call every
// kBusyTurns turns of a busy network.
//
//   const bool moved = all();
//   if (!turns_.due(moved)) return moved;
//   return (network->poll() && all()) || moved;
#pragma once

namespace rondo::net {

class PollTurns {
 public:
  static constexpr int kBusyTurns = 32;

  bool due(bool moved) {
    busy_ = moved ? busy_ + 1 : 0;
    if (moved && busy_ < kBusyTurns) return false;
    busy_ = 0;
    return true;
  }

 private:
  int busy_ = 0;
};

}  // namespace rondo::net
