// The bytes of a HostTopology: a magic word with the layout version, then every field in the order
// of the struct, little-endian; lists by their length, CPU lists as ranges.
#include <algorithm>
#include <utility>

#include "topology/host_topology.h"

namespace rondo::topology {
namespace {

constexpr std::uint32_t kMagic = 0x31544f52;  // "ROT1": raise the digit with the layout
constexpr std::uint32_t kMaxText = 4096;
constexpr std::uint32_t kMaxItems = kMaxCpu + 1;
// CPUs in all lists together: some hundred bytes must not make the reader allocate gigabytes.
constexpr std::size_t kMaxListedCpus = 16 * std::size_t{kMaxItems};

class Writer {
 public:
  template <class Number>
  void number(Number value) {
    for (std::size_t byte = 0; byte < sizeof value; ++byte) {
      bytes_.push_back(static_cast<char>(static_cast<std::uint64_t>(value) >> (8 * byte)));
    }
  }
  void text(const std::string& value) {
    const auto length = static_cast<std::uint32_t>(std::min<std::size_t>(value.size(), kMaxText));
    number(length);
    bytes_.append(value, 0, length);
  }
  void cpus(const CpuList& list) {
    std::vector<std::pair<int, int>> ranges;  // first, length
    for (const int cpu : list) {
      if (!ranges.empty() && ranges.back().first + ranges.back().second == cpu) {
        ++ranges.back().second;
      } else {
        ranges.emplace_back(cpu, 1);
      }
    }
    size(ranges.size());
    for (const auto& [first, length] : ranges) {
      number(static_cast<std::uint32_t>(first));
      number(static_cast<std::uint32_t>(length));
    }
  }
  void size(std::size_t count) { number(static_cast<std::uint32_t>(count)); }
  std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

// After the first bad field everything reads as zero and ok() is false.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : rest_(bytes) {}

  template <class Number>
  Number number() {
    std::uint64_t value = 0;
    if (!require(rest_.size() >= sizeof(Number))) return Number{};
    for (std::size_t byte = 0; byte < sizeof(Number); ++byte) {
      value |= std::uint64_t{static_cast<unsigned char>(rest_[byte])} << (8 * byte);
    }
    rest_.remove_prefix(sizeof(Number));
    return static_cast<Number>(value);
  }
  std::string text() {
    const auto length = number<std::uint32_t>();
    if (!require(length <= kMaxText && length <= rest_.size())) return {};
    std::string value(rest_.substr(0, length));
    rest_.remove_prefix(length);
    return value;
  }
  // Ranges must be ascending with a gap between them, so that equal lists have equal bytes.
  CpuList cpus() {
    CpuList list;
    std::uint32_t lowest = 0;  // that the next range may begin with
    for (std::uint32_t ranges = items(); ranges > 0 && ok_; --ranges) {
      const auto first = number<std::uint32_t>();
      const auto length = number<std::uint32_t>();
      if (!require(first >= lowest && first < kMaxItems)) return {};
      if (!require(length > 0 && length <= kMaxItems - first)) return {};
      listed_ += length;
      if (!require(listed_ <= kMaxListedCpus)) return {};
      for (std::uint32_t i = 0; i < length; ++i) list.push_back(static_cast<int>(first + i));
      lowest = first + length + 1;
    }
    return ok_ ? list : CpuList{};
  }
  std::uint32_t items() {
    const auto count = number<std::uint32_t>();
    return require(count <= kMaxItems && count <= rest_.size()) ? count : 0;
  }
  bool require(bool condition) { return ok_ = ok_ && condition; }
  bool ok() const { return ok_; }
  std::size_t left() const { return rest_.size(); }

 private:
  std::string_view rest_;
  std::size_t listed_ = 0;
  bool ok_ = true;
};

template <class Item, class ReadItem>
std::vector<Item> read_list(Reader& in, ReadItem read_item) {
  std::vector<Item> list;
  for (std::uint32_t count = in.items(); count > 0 && in.ok(); --count) list.push_back(read_item());
  return list;
}

void write_caches(Writer& out, const std::vector<Cache>& caches) {
  out.size(caches.size());
  for (const Cache& cache : caches) {
    out.number(cache.bytes);
    out.cpus(cache.cpus);
  }
}

std::vector<Cache> read_caches(Reader& in) {
  return read_list<Cache>(in, [&] {
    const auto bytes = in.number<std::uint64_t>();
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
  Writer out;
  out.number(kMagic);
  out.number(host.host_id);
  for (const std::string* text :
       {&host.host_name, &host.kernel_version, &host.cpu_vendor, &host.cpu_model, &host.source}) {
    out.text(*text);
  }
  out.number(host.cpu_features);
  out.number(static_cast<std::uint32_t>(host.cores_usable));
  out.number(static_cast<std::uint32_t>(host.cores_total));
  out.number(host.memory_bytes);
  out.number(host.page_bytes);
  out.number(host.cache_line_bytes);
  out.number(host.l1d_bytes);
  out.number(host.l2_bytes);
  out.number(host.l3_bytes);
  out.cpus(host.cpus);
  out.size(host.numa_nodes.size());
  for (const NumaNode& node : host.numa_nodes) {
    out.number(static_cast<std::uint32_t>(node.id));
    out.number(node.memory_bytes);
    out.cpus(node.cpus);
  }
  for (const auto* groups : {&host.packages, &host.physical_cores}) {
    out.size(groups->size());
    for (const CpuList& group : *groups) out.cpus(group);
  }
  write_caches(out, host.l2_caches);
  write_caches(out, host.l3_caches);
  return out.take();
}

Result<HostTopology> parse(std::string_view blob) {
  Reader in(blob);
  if (in.number<std::uint32_t>() != kMagic) {
    return fail(Status::kInvalidArgument,
                "{} bytes are not a topology of this version of Rondo; all ranks of a host must "
                "run the same version",
                blob.size());
  }
  HostTopology host;
  host.host_id = in.number<std::uint64_t>();
  for (std::string* text :
       {&host.host_name, &host.kernel_version, &host.cpu_vendor, &host.cpu_model, &host.source}) {
    *text = in.text();
  }
  host.cpu_features = in.number<std::uint32_t>();
  host.cores_usable = static_cast<int>(in.number<std::uint32_t>());
  host.cores_total = static_cast<int>(in.number<std::uint32_t>());
  host.memory_bytes = in.number<std::uint64_t>();
  host.page_bytes = in.number<std::uint32_t>();
  host.cache_line_bytes = in.number<std::uint32_t>();
  host.l1d_bytes = in.number<std::uint64_t>();
  host.l2_bytes = in.number<std::uint64_t>();
  host.l3_bytes = in.number<std::uint64_t>();
  host.cpus = in.cpus();
  host.numa_nodes = read_list<NumaNode>(in, [&] {
    NumaNode node;
    node.id = static_cast<int>(in.number<std::uint32_t>());
    node.memory_bytes = in.number<std::uint64_t>();
    node.cpus = in.cpus();
    in.require(node.id >= 0);
    return node;
  });
  for (auto* groups : {&host.packages, &host.physical_cores}) {
    *groups = read_list<CpuList>(in, [&] { return in.cpus(); });
  }
  host.l2_caches = read_caches(in);
  host.l3_caches = read_caches(in);
  if (!in.ok() || in.left() != 0 || !is_sound(host)) {
    return fail(Status::kInvalidArgument, "the topology of {} bytes is damaged ({} not understood)",
                blob.size(), in.left());
  }
  return host;
}

}  // namespace rondo::topology
