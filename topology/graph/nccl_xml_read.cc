// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>
#include <charconv>
#include <cstdint>
#include <map>
#include <optional>
#include <pugixml.hpp>
#include <set>

#include "topology/graph/nccl_xml.h"
#include "topology/graph/rates.h"
#include "topology/small_file.h"

namespace rondo::topology {
namespace {

constexpr int kMaxBridges = 32;  // in one path
constexpr std::uint32_t kClassBridge = 0x060400, kClassNvSwitch = 0x068000, kClassCpu = 0x068001;

// Known elements and attributes. Those that a graph does not hold are ignored silently.
const std::map<std::string_view, std::set<std::string_view>> kAttributes = {
    {"system", {"version"}},
    {"cpu", {"numaid", "affinity", "arch", "vendor", "familyid", "modelid", "host_hash"}},
    {"pci",
     {"busid", "class", "link_speed", "link_width", "vendor", "device", "subsystem_vendor",
      "subsystem_device"}},
    {"gpu", {"dev", "sm", "rank", "gdr", "mig"}},
    {"nvlink", {"target", "count", "tclass"}},
    {"c2c", {"bw", "count"}},
    {"nic", {}},
    {"net", {"name", "dev", "speed", "port", "latency", "guid", "maxconn", "gdr", "coll", "keep"}},
};

std::optional<std::uint32_t> number_of(std::string_view text, int base) {
  if (base == 16 && text.starts_with("0x")) text.remove_prefix(2);
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// Parses "0000ffff,ffffffff": words of 32 bits, the highest first.
std::optional<CpuList> cpus_of_mask(std::string_view mask) {
  CpuList cpus;
  const int words = 1 + static_cast<int>(std::count(mask.begin(), mask.end(), ','));
  for (int word = words - 1; !mask.empty(); --word) {
    const auto bits = number_of(take_until(mask, ','), 16);
    if (!bits || word * 32 > kMaxCpu) return std::nullopt;
    for (int bit = 0; bit < 32; ++bit) {
      if ((*bits >> bit & 1) != 0) cpus.push_back(word * 32 + bit);
    }
  }
  std::sort(cpus.begin(), cpus.end());
  return cpus;
}

class NcclXmlReader {
 public:
  NcclXmlReader(std::string_view text, std::string_view file) : text_(text), file_(file) {}

  Result<ParsedGraph> read();

 private:
  using Xml = pugi::xml_node;

  int line_of(std::ptrdiff_t offset) const {
    const auto end = text_.begin() + std::clamp<std::ptrdiff_t>(offset, 0, std::ssize(text_));
    return 1 + static_cast<int>(std::count(text_.begin(), end, '\n'));
  }
  template <class... Args>
  Error refuse(Xml at, fmt::format_string<Args...> format, Args&&... args) const {
    return fail(StatusCode::kInvalidArgument, "{}, line {}: {}", file_, line_of(at.offset_debug()),
                fmt::format(format, std::forward<Args>(args)...));
  }
  void note(Xml at, const std::string& what) {
    if (noted_.insert(what).second) {
      notes_.push_back(fmt::format("{}, line {}", what, line_of(at.offset_debug())));
    }
  }
  void note_unknown_attributes(Xml element);
  // A number from 0 to `maximum`; `missing` if the attribute is absent.
  Result<int> number(Xml element, const char* attribute, int missing, int maximum,
                     int base = 10) const;
  Result<std::string> bus_id(Xml element, const char* attribute) const;

  Status read_numa(Xml element);
  Status read_device(Xml element, int above, int depth);
  Status read_inside(Xml element, int above, int depth);
  Status read_gpu(Xml pci, int node);
  Status read_links(Xml gpu, int node);
  Status read_nic(Xml nic, const std::string& bus_id, int above, const GraphLink& link);
  void hang(int node, int above, GraphLink link) {
    link.from = node;
    link.to = above;
    builder_.link(link);
  }
  Status resolve_links();
  Result<GraphLink> link_of(Xml pci) const;  // the link to the parent, without its ends

  struct PendingLink {  // its target may be later in the file
    Xml element;
    int from;
    std::string target;
    int count;
    bool nvlink;
  };

  std::string_view text_;
  std::string_view file_;
  GraphBuilder builder_;
  std::vector<PendingLink> pending_;
  std::set<std::string> noted_;
  std::vector<std::string> notes_;
};

void NcclXmlReader::note_unknown_attributes(Xml element) {
  const auto known = kAttributes.find(element.name());
  for (const auto attribute : element.attributes()) {
    if (known->second.contains(attribute.name())) continue;
    note(element, fmt::format("attribute {} of <{}>", attribute.name(), element.name()));
  }
}

Result<int> NcclXmlReader::number(Xml element, const char* attribute, int missing, int maximum,
                                  int base) const {
  const std::string_view text = element.attribute(attribute).value();
  if (text.empty()) return missing;
  const auto value = number_of(text, base);
  if (!value || *value > static_cast<std::uint32_t>(maximum)) {
    return refuse(element, "{}=\"{}\" of <{}> is not a number of 0 to {}", attribute, text,
                  element.name(), maximum);
  }
  return static_cast<int>(*value);
}

Result<std::string> NcclXmlReader::bus_id(Xml element, const char* attribute) const {
  const char* text = element.attribute(attribute).value();
  std::string id = normal_bus_id(text);
  if (!id.empty()) return id;
  return refuse(element, "{}=\"{}\" of <{}> is not a bus id, as 0000:17:00.0 is one", attribute,
                text, element.name());
}

Result<GraphLink> NcclXmlReader::link_of(Xml pci) const {
  RONDO_TRY(const int lanes, number(pci, "link_width", 0, 255));
  GraphLink link{.count = lanes <= 32 ? lanes : 0, .source = Source::kFile};  // 255: unknown
  link.gbs = pci_gbs(gigatransfers(pci.attribute("link_speed").value()), link.count);
  return link;
}

Status NcclXmlReader::read_numa(Xml element) {
  note_unknown_attributes(element);
  RONDO_TRY(const int id, number(element, "numaid", 0, kMaxCpu));
  const char* mask = element.attribute("affinity").value();
  auto cpus = cpus_of_mask(mask);
  if (!cpus) return refuse(element, "affinity=\"{}\" is not a core mask", mask);
  CpuModel model{element.attribute("arch").value(), element.attribute("vendor").value()};
  RONDO_TRY(model.family, number(element, "familyid", 0, 1 << 16));
  RONDO_TRY(model.model, number(element, "modelid", 0, 1 << 16));
  builder_.cpu(std::move(model));
  const int node = builder_.add(
      {.kind = NodeKind::kNuma, .number = id, .cpus = std::move(*cpus), .source = Source::kFile});
  return read_inside(element, node, 0);
}

Status NcclXmlReader::read_inside(Xml element, int above, int depth) {
  for (const Xml child : element.children()) {
    const std::string_view kind = child.name();
    if (child.type() != pugi::node_element) continue;
    if (kind == "pci") {
      RONDO_CHECK_OK(read_device(child, above, depth + 1));
    } else if (kind == "nic") {
      RONDO_CHECK_OK(read_nic(child, "", above, {.count = 0, .source = Source::kFile}));
    } else {
      note(child, fmt::format("element <{}> in <{}>", kind, element.name()));
    }
  }
  return ok_status();
}

Status NcclXmlReader::read_device(Xml pci, int above, int depth) {
  if (depth > kMaxBridges) return refuse(pci, "more than {} bridges in a row", kMaxBridges);
  note_unknown_attributes(pci);
  RONDO_TRY(std::string id, bus_id(pci, "busid"));
  RONDO_TRY(const int code, number(pci, "class", kClassBridge, 0xffffff, 16));
  RONDO_TRY(const GraphLink link, link_of(pci));
  const int base = code >> 16;
  if (base == 0x02) {
    if (const Xml nic = pci.child("nic")) return read_nic(nic, id, above, link);
    const int node =
        builder_.add({.kind = NodeKind::kNic, .bus_id = std::move(id), .source = Source::kFile});
    hang(node, above, link);
    return ok_status();
  }
  const bool is_gpu = base == 0x03 || base == 0x12;
  const bool is_bridge = code == kClassBridge;
  if (!is_gpu && !is_bridge) {
    note(pci, fmt::format("PCI devices of class 0x{:06x}", code));
    return ok_status();
  }
  const int node = builder_.add({.kind = is_gpu ? NodeKind::kGpu : NodeKind::kBridge,
                                 .bus_id = std::move(id),
                                 .source = Source::kFile});
  hang(node, above, link);
  return is_gpu ? read_gpu(pci, node) : read_inside(pci, node, depth);
}

Status NcclXmlReader::read_gpu(Xml pci, int node) {
  const Xml gpu = pci.child("gpu");
  if (!gpu) return ok_status();
  note_unknown_attributes(gpu);
  RONDO_TRY(builder_.node(node).number, number(gpu, "dev", -1, 4096));
  RONDO_TRY(builder_.node(node).compute, number(gpu, "sm", 0, 1000));
  return read_links(gpu, node);
}

Status NcclXmlReader::read_links(Xml gpu, int node) {
  for (const Xml link : gpu.children()) {
    const std::string_view kind = link.name();
    if (link.type() != pugi::node_element) continue;
    if (kind != "nvlink" && kind != "c2c") {
      note(link, fmt::format("element <{}> in <gpu>", kind));
      continue;
    }
    note_unknown_attributes(link);
    RONDO_TRY(const int count, number(link, "count", 1, 1024));
    if (kind == "c2c") {
      RONDO_TRY(const int megabytes, number(link, "bw", 0, 10'000'000));
      pending_.push_back({link, node, "", count * megabytes, false});
      continue;
    }
    RONDO_TRY(const int target_class, number(link, "tclass", 0, 0xffffff, 16));
    std::string target;
    if (target_class == kClassCpu) {
      target = "cpu";
    } else if (target_class != kClassNvSwitch) {
      RONDO_TRY(target, bus_id(link, "target"));
    }
    pending_.push_back({link, node, std::move(target), count, true});
  }
  return ok_status();
}

Status NcclXmlReader::read_nic(Xml nic, const std::string& id, int above, const GraphLink& link) {
  note_unknown_attributes(nic);
  for (const Xml net : nic.children()) {
    if (net.type() != pugi::node_element) continue;
    if (std::string_view(net.name()) != "net") {
      note(net, fmt::format("element <{}> in <nic>", net.name()));
      continue;
    }
    note_unknown_attributes(net);
    GraphNode node{.kind = NodeKind::kNic,
                   .bus_id = id,
                   .name = net.attribute("name").value(),
                   .source = Source::kFile};
    RONDO_TRY(node.number, number(net, "dev", -1, 4096));
    RONDO_TRY(node.port, number(net, "port", 0, 255));
    RONDO_TRY(const int megabits, number(net, "speed", 0, 100'000'000));
    node.port_gbs = megabits / kMegabitsOfGbs;
    const int port = builder_.add(std::move(node));
    hang(port, above, link);
  }
  return ok_status();
}

Status NcclXmlReader::resolve_links() {
  for (const PendingLink& link : pending_) {
    const double each = nvlink_gbs(builder_.node(link.from).compute);
    if (!link.nvlink || link.target == "cpu") {
      const double gbs = link.nvlink ? link.count * each : link.count / 1000.0;
      builder_.link(
          {link.from, builder_.numa_of(link.from), GraphLinkKind::kC2c, gbs, 1, Source::kFile});
      continue;
    }
    const int to = link.target.empty() ? builder_.nvswitch() : builder_.find(link.target);
    if (to == link.from) {  // in real files of virtual machines
      note(link.element, fmt::format("an NVLink of GPU {} to itself", link.target));
      continue;
    }
    if (to < 0) {
      return refuse(link.element, "target=\"{}\" is not another GPU of this file", link.target);
    }
    builder_.link(
        {link.from, to, GraphLinkKind::kNvLink, link.count * each, link.count, Source::kFile});
  }
  return ok_status();
}

Result<ParsedGraph> NcclXmlReader::read() {
  pugi::xml_document document;
  const auto parsed = document.load_buffer(text_.data(), text_.size());
  if (!parsed) {
    return fail(StatusCode::kInvalidArgument, "{}, line {}: {}", file_, line_of(parsed.offset),
                parsed.description());
  }
  const Xml system = document.child("system");
  if (!system) {
    return fail(StatusCode::kInvalidArgument,
                "{} is not one of NCCL's topology files: it has no <system>, but <{}>", file_,
                document.document_element().name());
  }
  note_unknown_attributes(system);
  for (const Xml child : system.children()) {
    if (child.type() != pugi::node_element) continue;
    if (std::string_view(child.name()) == "cpu") {
      RONDO_CHECK_OK(read_numa(child));
    } else {
      note(child, fmt::format("element <{}> in <system>", child.name()));
    }
  }
  RONDO_CHECK_OK(resolve_links());
  auto graph = std::move(builder_).build();
  if (!graph) return fail(graph.error().code, "{}: {}", file_, graph.error().text);
  return ParsedGraph{std::move(graph).value(), std::move(notes_)};
}

}  // namespace

Result<ParsedGraph> parse_nccl_xml(std::string_view text, std::string_view file) {
  return NcclXmlReader(text, file).read();
}

Result<ParsedGraph> read_nccl_xml(const std::string& path) {
  RONDO_TRY(const std::string text, read_topology_file(path));
  return parse_nccl_xml(text, path);
}

}  // namespace rondo::topology
