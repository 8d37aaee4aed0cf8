#include "collectives/gpu/device_connections.h"

#include <algorithm>
#include <cstring>

#include "base/double_tree.h"
#include "collectives/gpu/device.h"

namespace rondo::gpu {
namespace {

using cuda::Control;
using cuda::DeviceEnd;

constexpr std::uint64_t kAlignment = 128;  // counters on lines of their own
constexpr std::uint64_t kCounterBytes = kAlignment;

std::uint64_t rounded(std::uint64_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace

DeviceConnections::DeviceConnections(std::vector<int> devices, const ConnectionShape& shape)
    : api_(*gpu_api()),
      devices_(std::move(devices)),
      shape_(shape),
      memory_(devices_.size()),
      host_on_device_(devices_.size()) {
  bytes_.assign(devices_.size(), rounded(bytes_of_ends()));
  host_bytes_ = rounded(sizeof(Control) * devices_.size());
}

Result<std::unique_ptr<DeviceConnections>> DeviceConnections::make(
    const std::vector<int>& devices, const std::vector<std::vector<bool>>& reaches,
    const ConnectionShape& shape) {
  std::unique_ptr<DeviceConnections> made(new DeviceConnections(devices, shape));
  const int n = static_cast<int>(devices.size());
  for (int r = 0; r < n; ++r) {
    made->add_edge(r, (r + 1) % n, 0);
    for (int tree = 0; tree < 2; ++tree) {
      const int parent = double_tree(r, n, tree).parent;
      if (parent == kNoRank) continue;
      made->add_edge(r, parent, tree);
      made->add_edge(parent, r, tree);
    }
  }
  made->place_all(reaches);
  RONDO_CHECK_OK(made->allocate());
  RONDO_CHECK_OK(made->write_ends());
  return made;
}

DeviceConnections::~DeviceConnections() {
  for (std::size_t r = 0; r < memory_.size(); ++r) {
    if (memory_[r] == nullptr) continue;
    const DeviceScope scope(devices_[r]);
    api_.synchronize_device();  // a kernel of an aborted call may still be on its way out
    api_.free_memory(memory_[r]);
  }
  if (host_ != nullptr) api_.free_host(host_);
}

std::uint64_t DeviceConnections::bytes_of_slots(int wire) const {
  if ((shape_.wires >> wire & 1) == 0) return 0;
  return static_cast<std::uint64_t>(shape_.slots) *
         cuda::slot_bytes_of(static_cast<cuda::Wire>(wire), shape_.slot_bytes);
}

std::uint64_t DeviceConnections::bytes_of_ends() const {
  return sizeof(DeviceEnd) * cuda::kChannelEnds * static_cast<std::uint64_t>(shape_.channels);
}

void DeviceConnections::add_edge(int from, int to, int lane) {
  int outgoing = 0, incoming = 0;
  for (const Edge& edge : edges_) {
    if (edge.from == from && edge.to == to && edge.lane == lane) return;
    outgoing += edge.from == from;
    incoming += edge.to == to;
  }
  edges_.push_back({from, to, lane, outgoing, incoming, {}, {}, {}});
}

DeviceConnections::Place DeviceConnections::take(int home, std::uint64_t bytes) {
  std::uint64_t& used = home == kHost ? host_bytes_ : bytes_[static_cast<std::size_t>(home)];
  const Place place{home, used};
  used += rounded(bytes);
  return place;
}

void DeviceConnections::place_all(const std::vector<std::vector<bool>>& reaches) {
  for (Edge& edge : edges_) {
    const auto from = static_cast<std::size_t>(devices_[edge.from]);
    const auto to = static_cast<std::size_t>(devices_[edge.to]);
    const bool near = from == to || (reaches[from][to] && reaches[to][from]);
    for (int i = 0; i < shape_.channels * cuda::kWires; ++i) {
      edge.slots.push_back(take(near ? edge.to : kHost, bytes_of_slots(i % cuda::kWires)));
      edge.tail.push_back(take(near ? edge.to : kHost, kCounterBytes));
      edge.head.push_back(take(near ? edge.from : kHost, kCounterBytes));
    }
  }
}

Done DeviceConnections::allocate() {
  void* host = nullptr;
  RONDO_CHECK_OK(check(api_.allocate_host(&host, host_bytes_, kHostPortable | kHostMapped),
                       "cudaHostAlloc for the words of connections"));
  host_ = static_cast<std::byte*>(host);
  std::memset(host_, 0, host_bytes_);
  for (std::size_t r = 0; r < devices_.size(); ++r) {
    const DeviceScope scope(devices_[r]);
    RONDO_CHECK_OK(scope.entered());
    void* at = nullptr;
    RONDO_CHECK_OK(check(api_.host_device_pointer(&at, host_), "cudaHostGetDevicePointer"));
    host_on_device_[r] = static_cast<std::byte*>(at);
    RONDO_CHECK_OK(check(api_.allocate(&at, bytes_[r]), "cudaMalloc for connections"));
    memory_[r] = static_cast<std::byte*>(at);
  }
  return done();
}

std::byte* DeviceConnections::address(const Place& place, int rank) const {
  const auto home = static_cast<std::size_t>(place.home == kHost ? rank : place.home);
  return (place.home == kHost ? host_on_device_ : memory_)[home] + place.offset;
}

Done DeviceConnections::write_ends() {
  const int n = static_cast<int>(devices_.size());
  std::vector<std::vector<DeviceEnd>> ends(devices_.size());
  for (auto& of_rank : ends)
    of_rank.resize(static_cast<std::size_t>(shape_.channels * cuda::kChannelEnds));
  for (const Edge& edge : edges_) {
    for (int i = 0; i < shape_.channels * cuda::kWires; ++i) {
      const auto wire = static_cast<cuda::Wire>(i % cuda::kWires);
      for (const int direction : {cuda::kOutgoing, cuda::kIncoming}) {
        const bool out = direction == cuda::kOutgoing;
        const int rank = out ? edge.from : edge.to;
        DeviceEnd end{};
        end.connection.buffer = address(edge.slots[i], rank);
        end.connection.tail = reinterpret_cast<std::uint64_t*>(address(edge.tail[i], rank));
        end.connection.head = reinterpret_cast<std::uint64_t*>(address(edge.head[i], rank));
        end.connection.slot_bytes = cuda::slot_bytes_of(wire, shape_.slot_bytes);
        end.connection.slot_count = static_cast<std::uint64_t>(shape_.slots);
        end.connection.peer = out ? edge.to : edge.from;
        end.lane = edge.lane;
        const int index = out ? edge.out_index : edge.in_index;
        ends[rank][(i * cuda::kDirections + direction) * cuda::kEnds + index] = end;
      }
    }
  }
  for (int r = 0; r < n; ++r) {
    const DeviceScope scope(devices_[r]);
    RONDO_CHECK_OK(scope.entered());
    GpuStream stream = nullptr;
    RONDO_CHECK_OK(check(api_.create_stream(&stream, 0), "cudaStreamCreate"));
    GpuError error = api_.fill(memory_[r], 0, bytes_[r], stream);
    if (error == kGpuSuccess)
      error =
          api_.copy(memory_[r], ends[r].data(), bytes_of_ends(), GpuCopy::kHostToDevice, stream);
    if (error == kGpuSuccess) error = api_.synchronize_stream(stream);
    api_.destroy_stream(stream);
    RONDO_CHECK_OK(check(error, "setting up connections"));
  }
  return done();
}

DeviceEnd* DeviceConnections::ends(int rank) const {
  return reinterpret_cast<DeviceEnd*>(memory_[rank]);
}
Control* DeviceConnections::control(int rank) const {
  return reinterpret_cast<Control*>(host_on_device_[rank]) + rank;
}
Control& DeviceConnections::host_control(int rank) const {
  return reinterpret_cast<Control*>(host_)[rank];
}

}  // namespace rondo::gpu
