#include "topology/graph/graph_file.h"

#include <cerrno>
#include <pugixml.hpp>

#include "topology/graph/hwloc_graph.h"
#include "topology/small_file.h"

namespace rondo::topology {

Result<ParsedGraph> read_graph_file(const std::string& path) {
  RONDO_TRY(const std::string text, read_graph_text(path));
  pugi::xml_document document;
  const bool whole = static_cast<bool>(document.load_buffer(text.data(), text.size()));
  if (whole && std::string_view(document.document_element().name()) == "topology") {
    DiscoverOptions options;
    options.xml_path = path;
    return read_hwloc_graph(options);
  }
  return parse_nccl_xml(text, path);
}

}  // namespace rondo::topology
