// SPDX-License-Identifier: Apache-2.0
// Watch: the communicators of another library in this process, as its profiler plugin interface
// tells of them, and the ranks of other processes of this host in the same communicators.
//
// The status service (collectives/status) serves what it knows, on its thread. That thread also
// finds the other processes, by their status sockets, and keeps their memory files open: so their
// ranks are known after they have ended. Those of other hosts it finds by a folder (HostBook) or at
// a port of one host (HostMeeting).
// Guarantees: events find their communicator without a lock; a Seat that was left stays valid for
// kKeptFor, and its events do nothing. Of a forked child it knows nothing. Cost: that of
// WatchedComm for each communicator; each look reads a few words of it, and some files of /proc
// while the other processes are sought.
//
//   RONDO_TRY(Seat* const seat, Watch::instance().take(about));
//   seat->comm->enter(...);
//   Watch::instance().leave(*seat);
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "collectives/status/own_ranks.h"
#include "collectives/status/status_service.h"
#include "collectives/watch/host_book.h"
#include "collectives/watch/host_meeting.h"
#include "collectives/watch/watched_comm.h"
#include "transport/status/user_folder.h"

namespace rondo::watch {

// A rank of this process; events name it by its place and generation.
struct Seat {
  std::atomic<WatchedComm*> comm{nullptr};  // null: left
  unsigned place = 0;
  std::atomic<unsigned> generation{0};
  int version = 0;  // of the interface
  // The stop of a call is its end: it has no kernel, as those of Rondo on host memory.
  std::atomic<bool> ends_with_stop{false};
};

class Watch final : public WatchedRanks {
 public:
  static constexpr unsigned kSeats = 4096;
  static constexpr int kRecords = 64;  // communicators with a record of calls
  static constexpr std::chrono::seconds kKeptFor{2};

  // Of this process; a forked child has its own.
  static Watch& instance();
  // For events: null in a forked child.
  static Watch* current();
  // What NCCL hands back with each event: an address within the seat, by the seat's generation.
  static void* context_of(Seat& seat) {
    return reinterpret_cast<std::byte*>(&seat) + seat.generation % sizeof(Seat);
  }
  // The seat behind a context; null: none of this process, or another communicator has it now.
  Seat* own(void* context) {
    const std::uintptr_t at =
        reinterpret_cast<std::uintptr_t>(context) - reinterpret_cast<std::uintptr_t>(seats_.data());
    if (at >= sizeof(seats_)) return nullptr;
    Seat& seat = seats_[at / sizeof(Seat)];
    return context == context_of(seat) ? &seat : nullptr;
  }

  CallOrder& order() { return order_; }
  Result<Seat*> take(WatchedComm::About about);
  void leave(Seat& seat);
  // generation: its low 8 bits. Null: it was left, or another one is there.
  Seat* seat(unsigned place, unsigned generation) {
    Seat& at = seats_[place % kSeats];
    return (at.generation & 0xff) == generation &&
                   at.comm.load(std::memory_order_acquire) != nullptr
               ? &at
               : nullptr;
  }

  void add_to(JobView* view) const override;
  void add_peers(std::vector<PeerProcessAddress>* peers) const override;
  void add_silent(const std::set<std::uint64_t>& hosts, JobView* view) const override;
  std::vector<std::pair<auth::Tag, auth::Digest>> secrets() const override;
  void look() override;
  bool serves_metrics() const override { return serves_metrics_; }
  std::unique_ptr<auth::Acceptor> take_acceptor() override;
  std::string meet(std::string_view request) override;

 private:
  // The memory of one rank of another process.
  struct Peer {
    status::SocketName process;
    std::uint64_t hash = 0;
    Fd file;
    shm::SegmentView view;
  };
  struct Left {
    std::chrono::steady_clock::time_point at;
    unsigned place;
    std::unique_ptr<WatchedComm> comm;
  };
  Watch() = default;
  Result<Seat*> take_seat(WatchedComm::About about);
  void start_service(bool of_one_host);
  void find_other_hosts();
  void end_service();
  void free_left();
  void find_peers();
  void update_book();
  HostMeeting* meeting();
  void step_meeting();
  std::vector<const WatchedProcess*> others() const;
  void open_files_of(const status::SocketName& process, const std::map<std::uint64_t, bool>& own);
  std::set<std::uint64_t> lacking(bool with_other_hosts) const;

  mutable std::mutex mutex_;
  std::array<Seat, kSeats> seats_;
  CallOrder order_;
  std::vector<unsigned> free_;
  unsigned taken_ = 0;                                      // seats that have been used
  std::map<unsigned, std::unique_ptr<WatchedComm>> comms_;  // by place
  std::list<Left> left_;
  // Null: only this host. Only the thread uses what is in them.
  std::unique_ptr<HostBook> book_;
  std::unique_ptr<HostMeeting> meeting_;
  int records_ = 0;

  // From the first rank to the last. Taken before mutex_, and never by the thread, for whose end it
  // waits.
  std::mutex service_mutex_;
  int ranks_ = 0;
  bool seeks_hosts_ = false;  // there have been ranks of several hosts
  std::unique_ptr<StatusSeat> status_;

  std::map<std::uint64_t, Peer> peers_;  // by inode
  bool serves_metrics_ = false;
  std::chrono::steady_clock::time_point newest_seat_{}, next_search_{}, next_meeting_{};
};

}  // namespace rondo::watch
