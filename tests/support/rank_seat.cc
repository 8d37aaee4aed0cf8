// SPDX-License-Identifier: Apache-2.0
#include "tests/support/rank_seat.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>

namespace rondo::test {
namespace {

template <std::size_t n>
void copy_text(char (&to)[n], const std::string& from) {
  const std::size_t length = std::min(from.size(), n - 1);
  std::memcpy(to, from.data(), length);
  to[length] = '\0';
}

}  // namespace

void nap(double seconds) {
  timespec left{
      static_cast<time_t>(seconds),
      static_cast<long>((seconds - static_cast<double>(static_cast<long>(seconds))) * 1e9)};
  while (nanosleep(&left, &left) != 0 && errno == EINTR) {
  }
}

void sleep_until_killed() {
  for (;;) nap(60);
}

// Counts time as the product does: at most 0.25 s for a period in which this process did not run
// (it or the machine was stopped).
bool wait_until(const std::function<bool()>& holds, double seconds) {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::duration<double> kLongestGap(0.25);
  std::chrono::duration<double> waited(0);
  for (auto last = Clock::now(); !holds();) {
    const auto now = Clock::now();
    waited += std::min<std::chrono::duration<double>>(now - last, kLongestGap);
    last = now;
    if (waited.count() > seconds) return false;
    usleep(500);
  }
  return true;
}

void Board::make_id() {
  auto made = bootstrap::make_unique_id();
  if (made.ok()) {
    id = *made;
  } else {
    ADD_FAILURE() << made.error().text;
  }
  id_state.store(made.ok() ? 1 : 2);
}

void Board::wait_id() const {
  while (id_state.load() == 0) usleep(200);
}

bool Board::meet(int arriving) {
  const int round = arrived.fetch_add(arriving) / ranks + 1;
  return wait_until([&] { return arrived.load() >= round * ranks; });
}

SharedBoard::SharedBoard(int ranks)
    : bytes_(sizeof(Board) + static_cast<std::size_t>(ranks) * sizeof(BoardSeat)) {
  void* memory = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) std::abort();
  board_ = static_cast<Board*>(memory);
  board_->ranks = ranks;
}

SharedBoard::~SharedBoard() { munmap(board_, bytes_); }

void RankSeat::report(const Status& result, int culprit) {
  mine_.status = static_cast<int>(result.code());
  copy_text(mine_.text, result.ok() ? "" : result.error().text);
  mine_.culprit = culprit;
  mine_.reported.store(1);
}

void RankSeat::expect(bool condition, const std::string& text) {
  if (!condition && mine_.failures.fetch_add(1) == 0) copy_text(mine_.failure, text);
}

bool RankSeat::wait_flag(int flag) {
  return wait_until([&] { return board.flag.load() >= flag; });
}

}  // namespace rondo::test
