// SPDX-License-Identifier: Apache-2.0
#include "tests/simt/machine/gang.h"

#include <algorithm>
#include <numeric>

namespace rondo::simt {
Gang::Gang(AddressSpace& memory, const GangOptions& options)
    : random_(options.worker.seed ^ 0xd1ce),
      worker_(memory, options.worker),
      rooms_(static_cast<std::size_t>(options.devices), Room(options.limits)),
      active_(static_cast<std::size_t>(options.devices)),
      max_cooperative_(options.max_cooperative) {
  for (int i = 0; i < options.threads; ++i) {
    Worker::Options parallel = options.worker;
    parallel.seed += static_cast<std::uint64_t>(i) + 1;
    parallel.weak_memory = false;
    helpers_.push_back(std::make_unique<Helper>(memory, parallel));
    Helper& helper = *helpers_.back();
    helper.thread = std::thread([&helper] { help(helper); });
  }
}

Gang::~Gang() {
  for (const auto& helper : helpers_) {
    {
      const std::lock_guard lock(helper->mutex);
      helper->stop = true;
    }
    helper->wake.notify_one();
    helper->thread.join();
  }
}

void Gang::start(std::shared_ptr<Grid> grid) {
  grid->ctas_left = grid->ctas;
  grid->waiting.resize(grid->ctas);
  std::iota(grid->waiting.begin(), grid->waiting.end(), 0u);
  active_[static_cast<std::size_t>(grid->device)] += static_cast<int>(grid->ctas);
  grids_.push_back(std::move(grid));
}

// Makes waiting CTAs resident, one after the other, from grids that the seed chooses.
void Gang::deal() {
  std::size_t stuck = 0;  // grids at the front that were tried without success
  while (stuck < grids_.size()) {
    std::swap(grids_[stuck], grids_[stuck + random_.below(grids_.size() - stuck)]);
    const std::shared_ptr<Grid> grid = grids_[stuck];
    if (grid->given_up) {
      cancel(*grid);
    } else if (!grid->cooperative) {
      if (!place_one(grid)) ++stuck;
    } else if (may_begin(*grid)) {
      cooperative_.push_back(grid);
      while (!grid->waiting.empty()) place_one(grid);
    } else {
      ++stuck;
    }
    if (grid->waiting.empty()) std::erase(grids_, grid);
  }
}

bool Gang::may_begin(const Grid& grid) {
  std::erase_if(cooperative_, [](const auto& one) { return one->ctas_left == 0; });
  const auto beside = std::count_if(cooperative_.begin(), cooperative_.end(),
                                    [&](const auto& one) { return one->device == grid.device; });
  return rooms_[static_cast<std::size_t>(grid.device)].holds_now(grid) &&
         (max_cooperative_ == 0 || beside < max_cooperative_);
}

void Gang::cancel(Grid& grid) {
  const auto unborn = static_cast<unsigned>(grid.waiting.size());
  grid.waiting.clear();
  active_[static_cast<std::size_t>(grid.device)] -= static_cast<int>(unborn);
  if (grid.ctas_left.fetch_sub(unborn) == unborn) grid.when_over(grid);
}

bool Gang::place_one(const std::shared_ptr<Grid>& grid) {
  const int multiprocessor = rooms_[static_cast<std::size_t>(grid->device)].take(*grid, random_);
  if (multiprocessor < 0) return false;
  std::swap(grid->waiting[random_.below(grid->waiting.size())], grid->waiting.back());
  auto cta =
      std::make_unique<Cta>(grid, grid->waiting.back(), &worker_.device_stores(grid->device));
  grid->waiting.pop_back();
  cta->multiprocessor = multiprocessor;
  place(std::move(cta));
  return true;
}

void Gang::place(std::unique_ptr<Cta> cta) {
  if (helpers_.empty()) return worker_.add(std::move(cta));
  Helper& helper = *helpers_[random_.below(helpers_.size())];
  {
    const std::lock_guard lock(helper.mutex);
    helper.arriving.push_back(std::move(cta));
  }
  helper.wake.notify_one();
}

void Gang::take_back(std::vector<std::unique_ptr<Cta>> ended) {
  for (const auto& cta : ended) {
    const auto device = static_cast<std::size_t>(cta->grid->device);
    rooms_[device].give_back(*cta->grid, cta->multiprocessor);
    --active_[device];
  }
}

void Gang::collect() {
  take_back(worker_.take_ended());
  for (const auto& helper : helpers_) {
    std::unique_lock lock(helper->mutex);
    std::vector<std::unique_ptr<Cta>> ended = std::move(helper->ended);
    helper->ended.clear();
    lock.unlock();
    take_back(std::move(ended));
  }
}

Worker::Turn Gang::turn(std::uint32_t allowed) {
  collect();
  if (!grids_.empty()) deal();
  if (helpers_.empty()) {
    const Worker::Turn turn = worker_.turn(allowed);
    if (turn == Worker::Turn::kMoved) collect();
    return turn;
  }
  const bool any = std::accumulate(active_.begin(), active_.end(), 0) > 0;
  return any ? Worker::Turn::kSpun : Worker::Turn::kIdle;
}

void Gang::drop_device(int device) {
  for (const auto& grid : grids_)
    if (grid->device == device) grid->given_up = true;
  worker_.drop_device(device);
  deal();
}

void Gang::help(Helper& helper) {
  constexpr int kTurnsBetweenLooks = 256;
  while (!helper.stop) {
    Worker::Turn turn = Worker::Turn::kIdle;
    for (int i = 0; i < kTurnsBetweenLooks; ++i) {
      turn = helper.worker.turn(~0u);
      if (turn != Worker::Turn::kMoved) break;
    }
    std::vector<std::unique_ptr<Cta>> ended = helper.worker.take_ended();
    std::unique_lock lock(helper.mutex);
    for (auto& cta : ended) helper.ended.push_back(std::move(cta));
    if (turn == Worker::Turn::kIdle)
      helper.wake.wait(lock, [&] { return !helper.arriving.empty() || helper.stop; });
    std::vector<std::unique_ptr<Cta>> arriving = std::move(helper.arriving);
    helper.arriving.clear();
    lock.unlock();
    if (turn == Worker::Turn::kSpun) std::this_thread::yield();
    for (auto& cta : arriving) helper.worker.add(std::move(cta));
  }
}

}  // namespace rondo::simt
