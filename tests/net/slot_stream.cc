// SPDX-License-Identifier: Apache-2.0
// One rank of a ring that forwards slots over the network; ranks find each other through files.
//
//   net_slot_stream DIRECTORY RANK SIZE MEGABYTES [DEADLINE_SECONDS [one_way]]
//
// Writes its addresses to DIRECTORY/RANK and RANK.data, and waits for the others' files. Then it
// streams MEGABYTES to the next rank, over the network that NCCL_NET names or TCP, and checks what
// it receives from the previous rank. With one_way rank 0 sends and the last rank receives; only
// the first word of a slot is written and checked, and the receiver prints the rate. Exit status 0:
// all data arrived, every byte right; 1: usage or set-up; 2: wrong bytes; 3: the previous or next
// rank failed, with one line that gives the reason.
#include <fmt/format.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string_view>
#include <thread>

#include "kernels/host/slots.h"
#include "transport/net/remote_links.h"
#include "transport/networks/open_network.h"

namespace {

using namespace rondo;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr std::size_t kSlotBytes = 128 << 10;

struct Run {
  std::filesystem::path directory;
  int rank;
  int size;
  std::uint64_t slots;  // number to forward
  std::chrono::duration<double> deadline;
  bool one_way = false;

  std::uint64_t to_send() const { return one_way && rank != 0 ? 0 : slots; }
  std::uint64_t to_receive() const { return one_way && rank != size - 1 ? 0 : slots; }
  std::size_t stamped() const { return one_way ? sizeof(std::uint64_t) : kSlotBytes; }
};

using Blobs = std::vector<std::vector<std::byte>>;

void put_blob(const Run& run, const std::string& kind, const std::vector<std::byte>& blob) {
  const auto name = run.directory / (std::to_string(run.rank) + kind);
  const auto fresh = run.directory / fmt::format(".{}", run.rank);
  std::ofstream(fresh, std::ios::binary)
      .write(reinterpret_cast<const char*>(blob.data()), static_cast<std::streamsize>(blob.size()));
  std::filesystem::rename(fresh, name);
}

Blobs get_blobs(const Run& run, const std::string& kind) {
  Blobs blobs;
  const auto until = Clock::now() + std::chrono::minutes(5);
  for (int r = 0; r < run.size; ++r) {
    const auto name = run.directory / (std::to_string(r) + kind);
    while (!std::filesystem::exists(name) && Clock::now() < until)
      std::this_thread::sleep_for(milliseconds(5));
    std::ifstream in(name, std::ios::binary);
    std::vector<char> bytes{std::istreambuf_iterator<char>(in), {}};
    const auto view = std::as_bytes(std::span(bytes));
    blobs.emplace_back(view.begin(), view.end());
  }
  return blobs;
}

std::uint64_t word_of(int rank, std::uint64_t slot) {
  return (slot + 1) * 0x9e3779b97f4a7c15ull + static_cast<std::uint64_t>(rank);
}

void fill(std::byte* slot, std::size_t bytes, std::uint64_t word) {
  for (std::size_t i = 0; i < bytes; i += sizeof(word), ++word)
    std::memcpy(slot + i, &word, sizeof(word));
}

bool holds(const std::byte* slot, std::size_t bytes, std::uint64_t word) {
  for (std::size_t i = 0; i < bytes; i += sizeof(word), ++word)
    if (std::memcmp(slot + i, &word, sizeof(word)) != 0) return false;
  return true;
}

int stream(const Run& run, RemoteLinks& links) {
  const int next = (run.rank + 1) % run.size;
  const int previous = (run.rank + run.size - 1) % run.size;
  auto to = links.sender(next, net::kCollectiveLane);
  auto from = links.receiver(previous, net::kCollectiveLane);
  if (!to.ok() || !from.ok()) return 1;
  host::SendEnd<> out(**to);
  host::ReceiveEnd<> in(**from);
  std::uint64_t sent = 0;
  std::uint64_t received = 0;
  auto last_progress = Clock::now(), first = last_progress;
  while (sent < run.to_send() || received < run.to_receive() || !links.flushed()) {
    bool moved = links.progress();
    if (sent < run.to_send() && out.ready()) {
      fill(out.slot(), run.stamped(), word_of(run.rank, sent++));
      out.push(kSlotBytes, {});
      moved = true;
    }
    if (received < run.to_receive() && in.ready()) {
      if (in.bytes() != kSlotBytes || !holds(in.slot(), run.stamped(), word_of(previous, received)))
        return 2;
      in.pop();
      if (received++ == 0) first = Clock::now();
      moved = true;
    }
    if (moved) {
      last_progress = Clock::now();
      continue;
    }
    for (const int peer : {previous, next}) {
      const bool needed =
          peer == next ? sent < run.to_send() || !links.flushed() : received < run.to_receive();
      if (auto error = links.error_of(peer); needed && !error.ok()) {
        fmt::print("rank {}: {}\n", run.rank, error.error().text);
        return 3;
      }
    }
    if (Clock::now() - last_progress > run.deadline) {
      fmt::print("rank {}: waited {} s for rank {}\n", run.rank, run.deadline.count(),
                 received < run.to_receive() ? previous : next);
      return 3;
    }
    if (net::Sleeper sleeper; sleeper.add(links)) sleeper.sleep(milliseconds(100));
  }
  fmt::print("rank {}: ok\n", run.rank);
  if (run.one_way && received > 1) {
    const std::chrono::duration<double> took = last_progress - first;
    fmt::print("{} bytes/s\n", static_cast<double>((received - 1) * kSlotBytes) / took.count());
  }
  return 0;
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 5) return 1;
  const Run run{arguments[1],
                std::atoi(arguments[2]),
                std::atoi(arguments[3]),
                std::strtoull(arguments[4], nullptr, 10) * ((1 << 20) / kSlotBytes),
                std::chrono::duration<double>(count > 5 ? std::atof(arguments[5]) : 30.0),
                count > 6 && std::string_view(arguments[6]) == "one_way"};
  RemoteLinksOptions options{.rank = run.rank, .size = run.size, .slots = {kSlotBytes, 8}};
  const auto opened = [&](const char* name, std::unique_ptr<net::Network>& into) {
    auto network = open_network(name, {run.rank});
    if (network.ok()) return into = std::move(network).value(), true;
    fmt::print("rank {}: {}\n", run.rank, network.error().text);
    return false;
  };
  const char* const of_data = std::getenv("NCCL_NET");
  if (!opened(kControlNetwork, options.network) ||
      (of_data != nullptr && !opened(of_data, options.data)))
    return 1;
  auto links = RemoteLinks::open(std::move(options));
  if (!links.ok()) {
    fmt::print("rank {}: {}\n", run.rank, links.error().text);
    return 1;
  }
  put_blob(run, ".data", (*links)->data_address_blob());
  put_blob(run, "", (*links)->address_blob());
  Blobs blobs = get_blobs(run, "");
  (*links)->set_peers(std::move(blobs), get_blobs(run, ".data"));
  return stream(run, **links);
}
