// The bytes of a HostTopology: a magic word with the layout version, then every field in the order
// of the struct, little-endian; lists by their length, CPU lists as ranges.
#include <algorithm>
#include <utility>

#include "base/bytes.h"
#include "topology/host_topology.h"

namespace rondo::topology {
namespace {

constexpr std::uint32_t kMagic = 0x31544f52;  // "ROT1": raise the digit with the layout
constexpr std::uint32_t kMaxText = 4096;
constexpr std::uint32_t kMaxItems = kMaxCpu + 1;
// CPUs in all lists together: some hundred bytes must not make the reader allocate gigabytes.
constexpr std::size_t kMaxListedCpus = 16 * std::size_t{kMaxItems};

void put_size(ByteWriter& out, std::size_t count) { out.put<std::uint32_t>(count); }

void put_text(ByteWriter& out, std::string_view text) { out.put_string(text.substr(0, kMaxText)); }

void put_cpus(ByteWriter& out, const CpuList& list) {
  std::vector<std::pair<int, int>> ranges;  // first, length
  for (const int cpu : list) {
    if (!ranges.empty() && ranges.back().first + ranges.back().second == cpu) {
      ++ranges.back().second;
    } else {
      ranges.emplace_back(cpu, 1);
    }
  }
  put_size(out, ranges.size());
  for (const auto& [first, length] : ranges) {
    out.put<std::uint32_t>(first);
    out.put<std::uint32_t>(length);
  }
}

// A reader that knows what a topology may hold.
class Reader : public ByteReader {
 public:
  using ByteReader::ByteReader;

  bool require(bool condition) {
    if (!condition) refuse();
    return ok();
  }
  std::string text() {
    const auto length = get<std::uint32_t>();
    if (!require(length <= kMaxText)) return {};
    const ByteSpan from = raw(length);
    return {reinterpret_cast<const char*>(from.data()), from.size()};
  }
  std::uint32_t items() {
    const auto count = get<std::uint32_t>();
    return require(count <= kMaxItems && count <= left()) ? count : 0;
  }
  // Ranges must be ascending with a gap between them, so that equal lists have equal bytes.
  CpuList cpus() {
    CpuList list;
    std::uint32_t lowest = 0;  // that the next range may begin with
    for (std::uint32_t ranges = items(); ranges > 0 && ok(); --ranges) {
      const auto first = get<std::uint32_t>(), length = get<std::uint32_t>();
      if (!require(first >= lowest && first < kMaxItems)) return {};
      if (!require(length > 0 && length <= kMaxItems - first)) return {};
      listed_ += length;
      if (!require(listed_ <= kMaxListedCpus)) return {};
      for (std::uint32_t i = 0; i < length; ++i) list.push_back(static_cast<int>(first + i));
      lowest = first + length + 1;
    }
    return ok() ? list : CpuList{};
  }
  template <class Item, class ReadItem>
  std::vector<Item> list(ReadItem read_item) {
    std::vector<Item> read;
    for (std::uint32_t count = items(); count > 0 && ok(); --count) read.push_back(read_item());
    return read;
  }

 private:
  std::size_t listed_ = 0;
};

void write_caches(ByteWriter& out, const std::vector<Cache>& caches) {
  put_size(out, caches.size());
  for (const Cache& cache : caches) {
    out.put(cache.bytes);
    put_cpus(out, cache.cpus);
  }
}

std::vector<Cache> read_caches(Reader& in) {
  return in.list<Cache>([&] {
    const auto bytes = in.get<std::uint64_t>();
    return Cache{bytes, in.cpus()};
  });
}

// What code above relies on.
bool is_sound(const HostTopology& host) {
  return host.cores_usable >= 1 && host.cores_total >= 1 && host.cores_usable <= host.cores_total &&
         host.cpus.size() == static_cast<std::size_t>(host.cores_total) && host.page_bytes > 0 &&
         host.cache_line_bytes > 0 && !host.numa_nodes.empty() && !host.packages.empty() &&
         !host.physical_cores.empty();
}

}  // namespace

std::string serialise(const HostTopology& host) {
  ByteWriter out;
  out.put(kMagic);
  out.put(host.host_id);
  for (const std::string* text :
       {&host.host_name, &host.kernel_version, &host.cpu_vendor, &host.cpu_model, &host.source}) {
    put_text(out, *text);
  }
  out.put(host.cpu_features);
  out.put<std::uint32_t>(host.cores_usable);
  out.put<std::uint32_t>(host.cores_total);
  out.put(host.memory_bytes);
  out.put(host.page_bytes);
  out.put(host.cache_line_bytes);
  out.put(host.l1d_bytes);
  out.put(host.l2_bytes);
  out.put(host.l3_bytes);
  put_cpus(out, host.cpus);
  put_size(out, host.numa_nodes.size());
  for (const NumaNode& node : host.numa_nodes) {
    out.put<std::uint32_t>(node.id);
    out.put(node.memory_bytes);
    put_cpus(out, node.cpus);
  }
  for (const auto* groups : {&host.packages, &host.physical_cores}) {
    put_size(out, groups->size());
    for (const CpuList& group : *groups) put_cpus(out, group);
  }
  write_caches(out, host.l2_caches);
  write_caches(out, host.l3_caches);
  const Bytes bytes = out.take();
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

Result<HostTopology> parse(std::string_view blob) {
  Reader in(std::as_bytes(std::span(blob)));
  if (in.get<std::uint32_t>() != kMagic) {
    return fail(Status::kInvalidArgument,
                "{} bytes are not a topology of this version of Rondo; all ranks of a host must "
                "run the same version",
                blob.size());
  }
  HostTopology host;
  host.host_id = in.get<std::uint64_t>();
  for (std::string* text :
       {&host.host_name, &host.kernel_version, &host.cpu_vendor, &host.cpu_model, &host.source}) {
    *text = in.text();
  }
  host.cpu_features = in.get<std::uint32_t>();
  host.cores_usable = static_cast<int>(in.get<std::uint32_t>());
  host.cores_total = static_cast<int>(in.get<std::uint32_t>());
  host.memory_bytes = in.get<std::uint64_t>();
  host.page_bytes = in.get<std::uint32_t>();
  host.cache_line_bytes = in.get<std::uint32_t>();
  host.l1d_bytes = in.get<std::uint64_t>();
  host.l2_bytes = in.get<std::uint64_t>();
  host.l3_bytes = in.get<std::uint64_t>();
  host.cpus = in.cpus();
  host.numa_nodes = in.list<NumaNode>([&] {
    NumaNode node;
    node.id = static_cast<int>(in.get<std::uint32_t>());
    node.memory_bytes = in.get<std::uint64_t>();
    node.cpus = in.cpus();
    in.require(node.id >= 0);
    return node;
  });
  for (auto* groups : {&host.packages, &host.physical_cores}) {
    *groups = in.list<CpuList>([&] { return in.cpus(); });
  }
  host.l2_caches = read_caches(in);
  host.l3_caches = read_caches(in);
  if (!in.finished() || !is_sound(host)) {
    return fail(Status::kInvalidArgument, "the topology of {} bytes is damaged ({} not understood)",
                blob.size(), in.left());
  }
  return host;
}

}  // namespace rondo::topology
