#include "collectives/gpu/order/rank_order.h"

#include <algorithm>
#include <utility>

#include "transport/cuda/streams.h"

namespace rondo::gpu {

RankOrder::RankOrder() {
  work_.watch([this] { return points_->are_over(); });
}

RankOrder::~RankOrder() {
  if (points_->are_over()) return;
  work_.leave([this] {
    const std::shared_ptr<Points> left = std::move(points_);
    return [left] { return left->are_over(); };
  });
}

Status RankOrder::open(int device, GpuStream stream) {
  device_ = device;
  return order_.open({&device, 1}, stream);
}

bool RankOrder::Points::are_over() {
  std::lock_guard lock(growing);
  return std::all_of(all.begin(), all.end(),
                     [](const Point& point) { return point.event.is_over(); });
}

Status RankOrder::begin(const RankStreams::Use& use) {
  const bool in_capture = capturing(use.capture);
  has_graphs_ |= in_capture;
  for (Point* const point : newest_) {
    if (!in_capture && same_stream(on_, use.stream)) break;
    if (in_capture) ++point->users;  // never reduced again: the graph waits for it in each replay
    RONDO_CHECK_OK(
        point->event.hold(use.stream, in_capture ? GpuEventUse::kExternal : GpuEventUse::kPlain));
  }
  return order_.begin(site_of(use));
}

Status RankOrder::end(const RankStreams::Use& use) {
  is_ahead_ = true;
  RONDO_CHECK_OK(order_.end(site_of(use)));
  forget_newest();
  return ok_status();
}

Status RankOrder::end_for(const RankStreams::Use& use, std::span<RankOrder* const> others) {
  if (others.empty()) return end(use);
  RONDO_TRY(Point* const point, unused_point());
  RONDO_CHECK_OK(point->event.record(use.stream));
  point->users = 1 + static_cast<int>(others.size());
  for (RankOrder* const other : others) other->missed_.push_back(point);
  return end_with(use, {point});
}

Result<RankOrder::Point*> RankOrder::unused_point() {
  const auto unused = std::find_if(points_->all.begin(), points_->all.end(),
                                   [](const Point& point) { return point.users == 0; });
  if (unused != points_->all.end()) return &*unused;
  const DeviceScope scope(device_);
  RONDO_CHECK_OK(scope.entered());
  std::lock_guard lock(points_->growing);
  Point& point = points_->all.emplace_back();
  RONDO_CHECK_OK(point.event.open());
  return &point;
}

// The stream has waited for these points, which are after all earlier messages. If there are
// graphs, order_ also gets an event: a replay waits for the newest record of it.
Status RankOrder::end_with(const RankStreams::Use& use, std::vector<Point*> points) {
  is_ahead_ = true;
  forget_newest();
  newest_ = std::move(points);
  on_ = use.stream;
  return has_graphs_ ? end(use) : ok_status();
}

void RankOrder::forget_newest() {
  for (Point* const point : newest_) --point->users;
  newest_.clear();
}

Status RankOrder::join(std::span<const RankStreams::Use> uses) {
  if (!missed_.empty()) {
    for (const Point* const point : missed_) RONDO_CHECK_OK(point->event.hold(uses.front().stream));
    RONDO_CHECK_OK(end_with(uses.front(), std::exchange(missed_, {})));
  }
  if (!is_ahead_) return ok_status();
  is_ahead_ = false;
  for (const RankStreams::Use& use : uses) RONDO_CHECK_OK(begin(use));
  return ok_status();
}

}  // namespace rondo::gpu
