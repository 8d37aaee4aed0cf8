// SPDX-License-Identifier: Apache-2.0
// StreamOrder: keeps the launches of a communicator's ranks on one device of a process in the order
// of their calls, on all streams and in graphs (NCCL calls this a strong stream).
//
// A rank posts a group of calls on some streams: begin_group(), then add() for each stream, which
// waits for the rank's earlier launches. A launch serves some ranks: begin(), the launch, end().
// join() then makes the rank's streams wait for the launches that served it. A launch waits for
// earlier launches of the ranks that it serves, and for nothing else: another rank may be ahead,
// and a wait for its later launches could deadlock. Messages of one group do not wait for each
// other.
// An event marks each launch. The launches of one rank, and those of all ranks, have an event of
// their own, which graphs record and wait for again in each replay. Another launch has an event
// that is not recorded again while one of its ranks may still wait for it.
//
// Guarantees: the newest launch runs after all earlier ones of its ranks, also in replays (unless
// the communicator's graphUsageMode excludes that graphs run beside other calls); within a capture
// the order is a capture dependency. Rondo's own memory is not freed while such a launch is
// unfinished, not even after the end of the order (deferred_free.h). Not thread-safe, except
// is_over(). For a default stream its device must be current.
// Cost: nothing for a communicator of one rank. Otherwise an event record a launch, and two a
// stream and group where another stream waits for it. In a graph: a node that waits in each
// capture, and a node that records for each launch.
#pragma once

#include <atomic>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "base/gpu.h"
#include "base/result.h"
#include "transport/cuda/deferred_free.h"
#include "transport/cuda/device.h"
#include "transport/cuda/stream_event.h"
#include "transport/cuda/streams.h"

namespace rondo::gpu {

// Ranks of one device, as bits. They are numbered from 0 by their place on the device, of which it
// has at most 64 (kMaxDirectRanks).
using RankSet = std::uint64_t;
constexpr RankSet set_of(int rank) { return RankSet{1} << rank; }
constexpr RankSet set_of_all(int ranks) { return ~RankSet{0} >> (64 - ranks); }

// A stream that a rank's calls of one group use.
struct StreamUse {
  GpuStream stream = nullptr;
  GpuEvent ready = nullptr;  // after add(); null: no other stream will wait for it
  GpuCaptureInfo capture;
};

// Where a launch goes: a stream of the rank, or the order's own.
struct LaunchPosition {
  int rank = 0;
  GpuStream stream = nullptr;
  GpuCaptureInfo capture;
  GpuEvent ready = nullptr;
};

class StreamOrder {
 public:
  struct Options {
    int device = -1;
    int ranks = 1;             // of the device
    bool ordered = true;       // false: launches of different groups share nothing
    bool mixes_graphs = true;  // false: graphs never run beside other calls (graphUsageMode)
    bool takes_turns = false;  // see Turn
  };
  enum class Kind { kCollective, kMessages };

  StreamOrder() = default;
  ~StreamOrder();
  StreamOrder(const StreamOrder&) = delete;
  StreamOrder& operator=(const StreamOrder&) = delete;
  Status open(const Options& options);

  // A stream that belongs to the order, for ranks on default streams, whose handle names another
  // stream on another thread.
  GpuStream own_stream() const { return own_stream_; }

  // at_once: all launches of the group are made before another rank's stream continues.
  void begin_group(int rank, bool at_once);
  Status add(int rank, GpuStream stream);
  Status add(int rank, GpuStream stream, const GpuCaptureInfo& capture);
  std::span<const StreamUse> streams(int rank) const { return at(rank).uses; }
  const StreamUse& stream(int rank, GpuStream which) const;
  // Records an event of add(), if it is not. Call before another stream waits for it.
  Status note(GpuEvent ready);
  Status join(int rank);

  // ranks: all that the launch serves.
  Status begin(const LaunchPosition& site, RankSet ranks, Kind kind);
  Status end(const LaunchPosition& site, RankSet ranks, Kind kind);

  // Everything for a group of calls of the order's only rank that one launch serves, on its first
  // stream.
  template <class Launch>
  Status serve(std::span<const GpuStream> streams, const GpuCaptureInfo& first,
               const Launch& launch) {
    RONDO_CHECK_OK(gather(streams, first));
    const StreamUse& on = at(0).uses.front();
    const LaunchPosition site{0, on.stream, on.capture, on.ready};
    RONDO_CHECK_OK(begin(site, set_of(0), Kind::kCollective));
    RONDO_CHECK_OK(launch());
    RONDO_CHECK_OK(end(site, set_of(0), Kind::kCollective));
    return join(0);
  }

  // Kernels of orders that take turns (launchOrderImplicit, NCCL_LAUNCH_ORDER_IMPLICIT=1) and wait
  // for other devices run in the order of their calls on each device, across all such communicators
  // of the process: otherwise two threads with
  // two communicators may launch in different orders on two devices, which is a deadlock if a
  // device has no room for both. Hold a turn from the first begin() to the last end() of such a
  // call. Not in captures. Cost: nothing if not requested; else a mutex a call, a wait a device.
  class Turn {
   public:
    Turn(StreamOrder& order, const GpuCaptureInfo& capture);
    ~Turn() { order_.has_turn_ = false; }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

   private:
    StreamOrder& order_;
    std::unique_lock<std::mutex> lock_;
  };

  // For a thread that launches for several GPUs: the turns of its group are all before or all after
  // those of another thread's group. Hold it from the first launch to the last one.
  static std::unique_lock<std::mutex> turns_of_group();

  bool is_over() const { return points_->are_over(); }  // all launches

 private:
  struct Point {
    StreamEvent event;
    int users = 0;                      // ranks that may have to wait for it
    std::atomic<bool> captured{false};  // the newest record is a part of a capture
  };
  struct Points {
    mutable std::mutex growing;  // are_over() runs on other threads
    std::list<Point> all;
    bool are_over() const;
  };
  // A launch that served the rank.
  struct Served {
    Point* point;
    GpuStream on;
    bool messages;
    bool in_graphs;  // graphs wait for an event that was recorded after it
  };
  struct Rank {
    Point* own = nullptr;  // after the newest launch that served this rank alone
    std::vector<StreamUse> uses;
    std::vector<StreamEvent> ready;  // by index in uses
    std::vector<Served> newest;
    GpuStream joined_on = nullptr;  // this stream waits for these, if `joined`
    bool joined = true;
    std::uint64_t capture = 0;  // of these; 0: none
    std::uint64_t waited = 0;   // the capture in which it has waited for launches of all ranks
  };
  const Rank& at(int rank) const { return ranks_[static_cast<std::size_t>(rank)]; }
  Rank& at(int rank) { return ranks_[static_cast<std::size_t>(rank)]; }
  Status gather(std::span<const GpuStream> streams, const GpuCaptureInfo& first);
  Status come_after(Rank& rank, const StreamUse& use);
  Status begin_capture(Rank& rank, const StreamUse& use);
  Status wait_for_shared(const LaunchPosition& site, RankSet ranks);
  Point* event_of(RankSet ranks);
  Result<Point*> make_point();
  Result<Point*> unused_point();
  static void forget(Rank& rank);
  static Status record(Point& point, const StreamUse& use);
  Status show_to_graphs(Rank& rank);

  Options options_;
  bool alone_ = false;       // there is one rank
  bool has_graphs_ = false;  // that may run beside other calls
  std::vector<Rank> ranks_;
  GpuStream own_stream_ = nullptr;
  Point* shared_ = nullptr;         // after the newest launch for all ranks; null: there is one
  std::vector<StreamUse> unnoted_;  // of the rank that posts now, without a record of `ready`
  bool at_once_ = false;
  bool has_turn_ = false;
  std::unique_ptr<Points> points_ = std::make_unique<Points>();
  UnfinishedWork work_;
};

}  // namespace rondo::gpu
