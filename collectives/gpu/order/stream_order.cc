// SPDX-License-Identifier: Apache-2.0
#include "collectives/gpu/order/stream_order.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cassert>
#include <map>
#include <utility>

namespace rondo::gpu {
namespace {

// The newest launch of each device, of all communicators that take turns.
struct Newest {
  const StreamOrder* order;
  GpuEvent event;
};
struct Turns {
  std::mutex groups;  // locked before the other one
  std::mutex mutex;
  std::map<int, Newest> of_device;
  std::atomic<int> orders{0};  // that take turns
};
Turns& turns_of_process() {
  static auto& all = *new Turns;  // never destroyed: the driver may have been unloaded by then
  return all;
}

template <class Visit>
Status for_each_rank(RankSet ranks, const Visit& visit) {
  for (int rank = 0; ranks != 0; ++rank, ranks >>= 1)
    if ((ranks & 1) != 0) RONDO_CHECK_OK(visit(rank));
  return ok_status();
}

std::uint64_t capture_id(const GpuCaptureInfo& capture) {
  return capturing(capture) ? capture.id : 0;
}

}  // namespace

StreamOrder::Turn::Turn(StreamOrder& order, const GpuCaptureInfo& capture) : order_(order) {
  if (capturing(capture) || !order.options_.takes_turns) return;
  lock_ = std::unique_lock(turns_of_process().mutex);
  order.has_turn_ = true;
}

std::unique_lock<std::mutex> StreamOrder::turns_of_group() {
  if (turns_of_process().orders.load(std::memory_order_relaxed) == 0) return {};
  return std::unique_lock(turns_of_process().groups);
}

bool StreamOrder::Points::are_over() const {
  std::lock_guard lock(growing);
  return std::all_of(all.begin(), all.end(), [](const Point& point) {
    return point.captured.load() || point.event.is_over();
  });
}

// A graph may wait for an event before the first launch, so each is recorded once.
Status StreamOrder::open(const Options& options) {
  options_ = options;
  if (options.takes_turns) ++turns_of_process().orders;
  ranks_.resize(static_cast<std::size_t>(options.ranks));
  alone_ = options.ranks == 1;
  work_.watch([this] { return is_over(); });
  if (!options.ordered) return ok_status();
  const DeviceScope scope(options.device);
  RONDO_CHECK_OK(scope.entered());
  RONDO_CHECK_OK(check(gpu_api()->create_stream(&own_stream_, 0), "cudaStreamCreate"));
  for (Rank& rank : ranks_) {
    if (!alone_) RONDO_CHECK_OK(rank.ready.emplace_back().open());
    RONDO_TRY(rank.own, make_point());
    RONDO_CHECK_OK(rank.own->event.record(own_stream_));
  }
  if (alone_) return ok_status();
  RONDO_TRY(shared_, make_point());
  return shared_->event.record(own_stream_);
}

StreamOrder::~StreamOrder() {
  if (options_.takes_turns) {
    Turns& turns = turns_of_process();
    --turns.orders;
    std::lock_guard lock(turns.mutex);
    std::erase_if(turns.of_device, [this](const auto& one) { return one.second.order == this; });
  }
  if (own_stream_ != nullptr) gpu_api()->destroy_stream(own_stream_);
  if (points_->are_over()) return;
  work_.leave([this] {
    const std::shared_ptr<Points> left = std::move(points_);
    return [left] { return left->are_over(); };
  });
}

Result<StreamOrder::Point*> StreamOrder::make_point() {
  const DeviceScope scope(options_.device);
  RONDO_CHECK_OK(scope.entered());
  std::lock_guard lock(points_->growing);
  Point& point = points_->all.emplace_back();
  point.users = 1;
  RONDO_CHECK_OK(point.event.open());
  return &point;
}

Result<StreamOrder::Point*> StreamOrder::unused_point() {
  const auto unused = std::find_if(points_->all.begin(), points_->all.end(),
                                   [](const Point& point) { return point.users == 0; });
  if (unused != points_->all.end()) return &*unused;
  RONDO_TRY(Point* const made, make_point());
  made->users = 0;
  return made;
}

void StreamOrder::begin_group(int rank, bool at_once) {
  at(rank).uses.clear();
  unnoted_.clear();
  at_once_ = at_once || alone_;
}

Status StreamOrder::add(int rank, GpuStream stream) {
  const std::vector<StreamUse>& uses = at(rank).uses;
  if (std::any_of(uses.begin(), uses.end(),
                  [stream](const StreamUse& use) { return use.stream == stream; }))
    return ok_status();
  RONDO_TRY(const GpuCaptureInfo capture, capture_of(stream));
  return add(rank, stream, capture);
}

// A rank that is alone needs no events unless it uses several streams.
Status StreamOrder::add(int rank, GpuStream stream, const GpuCaptureInfo& capture) {
  Rank& of = at(rank);
  of.uses.push_back({stream, nullptr, capture});
  RONDO_CHECK_OK(come_after(of, of.uses.back()));
  if (alone_ && of.uses.size() == 1) return ok_status();
  for (std::size_t i = 0; i < of.uses.size(); ++i) {
    StreamUse& use = of.uses[i];
    if (use.ready != nullptr) continue;
    if (i == of.ready.size()) {
      const DeviceScope scope(options_.device);
      RONDO_CHECK_OK(scope.entered());
      RONDO_CHECK_OK(of.ready.emplace_back().open());
    }
    use.ready = of.ready[i].get();
    if (at_once_)
      unnoted_.push_back(use);
    else
      RONDO_CHECK_OK(of.ready[i].record(use.stream));
  }
  return ok_status();
}

const StreamUse& StreamOrder::stream(int rank, GpuStream which) const {
  const std::vector<StreamUse>& uses = at(rank).uses;
  return *std::find_if(uses.begin(), uses.end(),
                       [which](const StreamUse& use) { return use.stream == which; });
}

Status StreamOrder::note(GpuEvent ready) {
  const auto found = std::find_if(unnoted_.begin(), unnoted_.end(),
                                  [ready](const StreamUse& use) { return use.ready == ready; });
  if (found == unnoted_.end()) return ok_status();
  const GpuStream stream = found->stream;
  unnoted_.erase(found);
  const auto record = [&] {
    return check(gpu_api()->record_event(ready, stream, GpuEventUse::kPlain), "cudaEventRecord");
  };
  if (!is_default_stream(stream)) return record();
  const DeviceScope scope(options_.device);
  RONDO_CHECK_OK(scope.entered());
  return record();
}

Status StreamOrder::gather(std::span<const GpuStream> streams, const GpuCaptureInfo& first) {
  begin_group(0, true);
  RONDO_CHECK_OK(add(0, streams.front(), first));
  for (const GpuStream stream : streams.subspan(1)) RONDO_CHECK_OK(add(0, stream));
  const std::vector<StreamUse>& uses = at(0).uses;
  for (std::size_t i = 1; i < uses.size(); ++i) {
    RONDO_CHECK_OK(note(uses[i].ready));
    RONDO_CHECK_OK(wait_for_event(uses.front().stream, uses[i].ready, GpuEventUse::kPlain));
  }
  return ok_status();
}

void StreamOrder::forget(Rank& rank) {
  for (const Served& served : rank.newest) --served.point->users;
  rank.newest.clear();
}

Status StreamOrder::come_after(Rank& rank, const StreamUse& use) {
  if (!options_.ordered) return ok_status();
  const std::uint64_t capture = capture_id(use.capture);
  if (capture != 0 && rank.capture != capture) return begin_capture(rank, use);
  // Graphs may have been launched since, on any stream.
  const bool by_graphs = capture == 0 && has_graphs_;
  if (by_graphs) RONDO_CHECK_OK(rank.own->event.hold(use.stream));
  if (capture == 0 && rank.capture != 0) {
    forget(rank);
    rank.capture = 0;
  }
  if (rank.joined && same_stream(rank.joined_on, use.stream)) return ok_status();
  for (const Served& served : rank.newest)
    if (!by_graphs || served.point != rank.own)
      RONDO_CHECK_OK(served.point->event.hold(use.stream));
  return ok_status();
}

// The first call of a capture comes after all earlier launches of its rank, whatever they are when
// the graph is launched.
Status StreamOrder::begin_capture(Rank& rank, const StreamUse& use) {
  std::vector<Served> earlier = std::move(rank.newest);
  rank.newest.clear();
  if (options_.mixes_graphs) {
    has_graphs_ = true;
    RONDO_CHECK_OK(rank.own->event.hold(use.stream, GpuEventUse::kExternal));
    for (const Served& served : earlier) {
      Point& point = *served.point;
      if (rank.capture != 0 || &point == rank.own || &point == shared_) continue;
      ++point.users;  // for good: the graph waits for it in each replay
      RONDO_CHECK_OK(point.event.hold(use.stream, GpuEventUse::kExternal));
    }
    // Other streams of the capture wait for this position.
    RONDO_TRY(Point* const waited, unused_point());
    RONDO_CHECK_OK(record(*waited, use));
    ++waited->users;
    rank.newest.push_back({waited, use.stream, false, true});
  }
  for (const Served& served : earlier) --served.point->users;
  rank.capture = use.capture.id;
  rank.joined = true;
  rank.joined_on = use.stream;
  return ok_status();
}

// The event that graphs know of launches for these ranks; null: none.
StreamOrder::Point* StreamOrder::event_of(RankSet ranks) {
  if (shared_ != nullptr && ranks == set_of_all(options_.ranks)) return shared_;
  return std::has_single_bit(ranks) ? at(std::countr_zero(ranks)).own : nullptr;
}

Status StreamOrder::wait_for_shared(const LaunchPosition& site, RankSet ranks) {
  if (shared_ == nullptr || !options_.mixes_graphs) return ok_status();
  const std::uint64_t capture = capture_id(site.capture);
  if (capture == 0) return has_graphs_ ? shared_->event.hold(site.stream) : ok_status();
  bool waits = false;
  for (int rank = 0; rank < options_.ranks; ++rank)
    if ((ranks & set_of(rank)) != 0) waits |= std::exchange(at(rank).waited, capture) != capture;
  return waits ? shared_->event.hold(site.stream, GpuEventUse::kExternal) : ok_status();
}

Status StreamOrder::begin(const LaunchPosition& site, RankSet ranks, Kind kind) {
  RONDO_CHECK_OK(wait_for_shared(site, ranks));
  if (has_turn_) {
    const std::map<int, Newest>& newest = turns_of_process().of_device;
    const auto found = newest.find(options_.device);
    if (found != newest.end() && found->second.order != this)
      RONDO_CHECK_OK(wait_for_event(site.stream, found->second.event, GpuEventUse::kPlain));
  }
  std::vector<const Point*> waited;
  return for_each_rank(ranks, [&](int rank) -> Status {
    const Rank& of = at(rank);
    if (of.joined || of.capture != capture_id(site.capture)) return ok_status();
    for (const Served& served : of.newest) {
      if ((served.messages && kind == Kind::kMessages) || same_stream(served.on, site.stream) ||
          std::find(waited.begin(), waited.end(), served.point) != waited.end())
        continue;
      waited.push_back(served.point);
      RONDO_CHECK_OK(served.point->event.hold(site.stream));
    }
    return ok_status();
  });
}

Status StreamOrder::end(const LaunchPosition& site, RankSet ranks, Kind kind) {
  if (!options_.ordered && at(site.rank).uses.size() < 2) return ok_status();
  const bool in_capture = capturing(site.capture);
  Point* newest = event_of(ranks);
  const bool in_graphs = newest != nullptr;
  if (newest != nullptr && !in_capture) RONDO_CHECK_OK(newest->event.record(site.stream));
  if (newest != nullptr && in_capture && options_.mixes_graphs)
    RONDO_CHECK_OK(newest->event.record(site.stream, GpuEventUse::kExternal));
  if (has_turn_) {
    assert(newest != nullptr && "kernels that wait serve one rank or all");
    turns_of_process().of_device[options_.device] = {this, newest->event.get()};
  }
  // Later work of the capture depends on this record, and so comes after the external one.
  if (newest == nullptr || in_capture) {
    RONDO_TRY(newest, unused_point());
    RONDO_CHECK_OK(record(*newest, {site.stream, nullptr, site.capture}));
  }
  return for_each_rank(ranks, [&](int rank) {
    Rank& of = at(rank);
    const bool beside = kind == Kind::kMessages && !of.joined;  // of other messages of the group
    const auto is_over = [&](const Served& one) {
      if (beside && one.messages && one.point != newest) return false;
      --one.point->users;
      return true;
    };
    ++newest->users;
    std::erase_if(of.newest, is_over);
    of.newest.push_back({newest, site.stream, kind == Kind::kMessages, in_graphs});
    of.joined = false;
    of.capture = capture_id(site.capture);
    return ok_status();
  });
}

// Every earlier launch is before the newest ones. Graphs know only the ranks' own events.
Status StreamOrder::join(int rank) {
  Rank& of = at(rank);
  if (of.joined) return ok_status();
  for (const StreamUse& use : of.uses) {
    if (of.capture != capture_id(use.capture)) continue;
    for (const Served& served : of.newest)
      if (!same_stream(served.on, use.stream)) RONDO_CHECK_OK(served.point->event.hold(use.stream));
  }
  of.joined = true;
  of.joined_on = of.uses.front().stream;
  const bool graphs_know = std::all_of(of.newest.begin(), of.newest.end(),
                                       [](const Served& served) { return served.in_graphs; });
  const bool is_here = of.capture == capture_id(of.uses.front().capture);
  return graphs_know || !has_graphs_ || !is_here ? ok_status() : show_to_graphs(of);
}

// The rank's first stream waits for its newest launches.
Status StreamOrder::show_to_graphs(Rank& rank) {
  const StreamUse& first = rank.uses.front();
  const bool in_capture = capturing(first.capture);
  Point* newest = rank.own;
  RONDO_CHECK_OK(newest->event.record(first.stream,
                                      in_capture ? GpuEventUse::kExternal : GpuEventUse::kPlain));
  if (in_capture) {
    RONDO_TRY(newest, unused_point());
    RONDO_CHECK_OK(record(*newest, first));
  }
  ++newest->users;
  forget(rank);
  rank.newest.push_back({newest, first.stream, false, true});
  return ok_status();
}

// A point that a capture contains cannot be queried.
Status StreamOrder::record(Point& point, const StreamUse& use) {
  if (capturing(use.capture)) point.captured = true;
  RONDO_CHECK_OK(point.event.record(use.stream));
  point.captured = capturing(use.capture);
  return ok_status();
}

}  // namespace rondo::gpu
