// SPDX-License-Identifier: Apache-2.0
// Whether external event nodes order graphs and plain calls as collectives/gpu/order/stream_order.h
// assumes: work waits for the newest record of one event, wherever that was made.
#include "asks.h"
#include "bounded.h"

namespace probe {
namespace {

constexpr int kRounds = 16;
constexpr std::uint64_t kLong = kMillisecond / 2;  // work that does not wait is then too early

// Streams whose work increments a word by kernels that begin late, and what readers saw of it.
struct Setting {
  cudaStream_t writes = new_stream(), reads = new_stream();
  cudaEvent_t event = new_event();
  std::uint32_t* count = new_device<std::uint32_t>(1);
  std::uint32_t* seen = new_device<std::uint32_t>(kRounds);

  void write() const {
    delay<<<1, 1, 0, writes>>>(kLong);
    add_one<<<1, 1, 0, writes>>>(count);
  }
  void record(bool external) const {
    PROBE(cudaEventRecordWithFlags(event, writes,
                                   external ? cudaEventRecordExternal : cudaEventRecordDefault));
  }
  void wait(bool external) const {
    PROBE(
        cudaStreamWaitEvent(reads, event, external ? cudaEventWaitExternal : cudaEventWaitDefault));
  }
  void read(int round) const { copy_word<<<1, 1, 0, reads>>>(seen + round, count); }

  // Number of rounds that saw less than `each` more than the previous round.
  int too_early(std::uint32_t each) const {
    PROBE(cudaDeviceSynchronize());
    std::uint32_t values[kRounds];
    PROBE(cudaMemcpy(values, seen, sizeof(values), cudaMemcpyDefault));
    int early = 0;
    for (int i = 0; i < kRounds; ++i) early += values[i] < each * static_cast<std::uint32_t>(i + 1);
    return early;
  }
};

void conclude(const char* assumption, int early) {
  put(assumption, early, print("of %d too early", kRounds).c_str());
  check(assumption, early == 0, print("%d of %d rounds were too early", early, kRounds));
}

// A plain stream waits for the record node of a graph. `together`: no host wait in between.
int plain_after_graph(bool together) {
  const Setting at;
  const cudaGraphExec_t graph = captured(at.writes, [&] {
    at.write();
    at.record(true);
  });
  for (int i = 0; i < kRounds; ++i) {
    PROBE(cudaGraphLaunch(graph, at.writes));
    at.wait(false);
    at.read(i);
    if (!together) PROBE(cudaDeviceSynchronize());
  }
  return at.too_early(1);
}

// A graph's wait node waits for a plain record.
int graph_after_plain() {
  const Setting at;
  at.record(false);
  cudaGraphExec_t graphs[kRounds];
  for (int i = 0; i < kRounds; ++i)
    graphs[i] = captured(at.reads, [&] {
      at.wait(true);
      at.read(i);
    });
  for (int i = 0; i < kRounds; ++i) {
    at.write();
    at.record(false);
    PROBE(cudaGraphLaunch(graphs[i], at.reads));
  }
  return at.too_early(1);
}

// A graph's wait node waits for another graph's record node: replays alternate on two streams.
int graph_after_graph() {
  const Setting at;
  at.record(false);
  const cudaGraphExec_t writer = captured(at.writes, [&] {
    at.write();
    at.record(true);
  });
  cudaGraphExec_t readers[kRounds];
  for (int i = 0; i < kRounds; ++i)
    readers[i] = captured(at.reads, [&] {
      at.wait(true);
      at.read(i);
    });
  for (int i = 0; i < kRounds; ++i) {
    PROBE(cudaGraphLaunch(writer, at.writes));
    PROBE(cudaGraphLaunch(readers[i], at.reads));
  }
  return at.too_early(1);
}

// Two record nodes of one event in one graph, as of two captured calls: the later one counts.
int after_two_records(bool reader_is_graph) {
  const Setting at;
  at.record(false);
  const cudaGraphExec_t writer = captured(at.writes, [&] {
    at.write();
    at.record(true);
    at.write();
    at.record(true);
  });
  cudaGraphExec_t readers[kRounds];
  for (int i = 0; i < kRounds; ++i)
    readers[i] = captured(at.reads, [&] {
      at.wait(true);
      at.read(i);
    });
  for (int i = 0; i < kRounds; ++i) {
    PROBE(cudaGraphLaunch(writer, at.writes));
    if (reader_is_graph) {
      PROBE(cudaGraphLaunch(readers[i], at.reads));
    } else {
      at.wait(false);
      at.read(i);
    }
  }
  return at.too_early(2);
}

// A plain record after a graph's record node, on another stream that waited for it, and a reader.
int record_after_record_node() {
  const Setting at;
  const cudaStream_t between = new_stream();
  const cudaGraphExec_t writer = captured(at.writes, [&] {
    at.write();
    at.record(true);
  });
  for (int i = 0; i < kRounds; ++i) {
    PROBE(cudaGraphLaunch(writer, at.writes));
    PROBE(cudaStreamWaitEvent(between, at.event, 0));
    delay<<<1, 1, 0, between>>>(kLong);
    add_one<<<1, 1, 0, between>>>(at.count);
    PROBE(cudaEventRecord(at.event, between));
    at.wait(false);
    at.read(i);
    PROBE(cudaStreamWaitEvent(at.writes, at.event, 0));  // as the next call there would
  }
  return at.too_early(2);
}

// A graph launched twice without a wait: later work waits for the second run.
int after_two_launches() {
  const Setting at;
  const cudaGraphExec_t writer = captured(at.writes, [&] {
    at.write();
    at.record(true);
  });
  for (int i = 0; i < kRounds; ++i) {
    PROBE(cudaGraphLaunch(writer, at.writes));
    PROBE(cudaGraphLaunch(writer, at.writes));
    at.wait(false);
    at.read(i);
  }
  return at.too_early(2);
}

// Queried on the host: not complete before the graph's node has run.
int queried_early() {
  const Setting at;
  int early = 0;
  const cudaGraphExec_t graph = captured(at.writes, [&] {
    at.write();
    at.record(true);
  });
  for (int i = 0; i < kRounds; ++i) {
    PROBE(cudaGraphLaunch(graph, at.writes));
    PROBE(cudaEventSynchronize(at.event));
    early += cudaStreamQuery(at.writes) == cudaErrorNotReady && [&] {
      std::uint32_t value = 0;
      PROBE(cudaMemcpyAsync(&value, at.count, sizeof(value), cudaMemcpyDefault, at.reads));
      PROBE(cudaStreamSynchronize(at.reads));
      return value < static_cast<std::uint32_t>(i + 1);
    }();
    PROBE(cudaDeviceSynchronize());
  }
  return early;
}

double replay_us(bool with_nodes) {
  const Setting at;
  at.record(false);
  const cudaGraphExec_t graph = captured(at.writes, [&] {
    if (with_nodes) PROBE(cudaStreamWaitEvent(at.writes, at.event, cudaEventWaitExternal));
    add_one<<<1, 1, 0, at.writes>>>(at.count);
    if (with_nodes) at.record(true);
  });
  constexpr int kReplays = 300;
  PROBE(cudaGraphLaunch(graph, at.writes));
  PROBE(cudaStreamSynchronize(at.writes));
  const double begin = now_seconds();
  for (int i = 0; i < kReplays; ++i) PROBE(cudaGraphLaunch(graph, at.writes));
  PROBE(cudaStreamSynchronize(at.writes));
  return since_us(begin) / kReplays;
}

}  // namespace

void ask_captured_events() {
  {
    const Setting at;  // everything is loaded before any timing by delays
    at.write();
    at.read(0);
    PROBE(cudaDeviceSynchronize());
    // Refused on a stream that is not captured.
    const cudaError_t recorded =
        cudaEventRecordWithFlags(at.event, at.writes, cudaEventRecordExternal);
    const cudaError_t waited = cudaStreamWaitEvent(at.writes, at.event, cudaEventWaitExternal);
    cudaGetLastError();
    put("external_record_outside", name_of(recorded));
    put("external_wait_outside", name_of(waited));
    check("refused_outside", recorded != cudaSuccess && waited != cudaSuccess,
          name_of(recorded) + ", " + name_of(waited));
  }
  conclude("plain_after_graph", plain_after_graph(false));
  conclude("plain_after_graphs", plain_after_graph(true));
  conclude("graph_after_plain", graph_after_plain());
  conclude("graph_after_graph", graph_after_graph());
  conclude("plain_after_two_records", after_two_records(false));
  conclude("graph_after_two_records", after_two_records(true));
  conclude("record_after_record_node", record_after_record_node());
  conclude("after_two_launches", after_two_launches());
  conclude("synchronized_early", queried_early());
  put("replay", replay_us(false), "us");
  put("replay_with_wait_and_record_nodes", replay_us(true), "us");
  PROBE(cudaGetLastError());
  answer("external record and wait nodes, against plain streams and other graphs");
}

}  // namespace probe
