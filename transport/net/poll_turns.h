// PollTurns: when the thread that drives a network polls which of its links can make progress.
//
// It polls whenever nothing moved. It also polls now and then while one link keeps moving:
// otherwise the other links, and new ones that peers open, would wait until that link is idle.
// Cost: one system call every kBusyTurns turns of a busy network.
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
