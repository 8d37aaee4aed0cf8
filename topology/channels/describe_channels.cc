#include "topology/channels/describe_channels.h"

#include <fmt/format.h>

#include "base/json.h"
#include "topology/graph/describe_graph.h"

namespace rondo::topology {
namespace {

std::string end_text(const Graph& graph, int node) {
  return node == Wires::kNetwork ? "network" : label(graph, node);
}

std::string slowest_text(const Graph& graph, const ChannelPlan& plan) {
  return end_text(graph, plan.slowest.from) + " to " + end_text(graph, plan.slowest.to);
}

}  // namespace

std::vector<int> devices_of(const Channel& channel) {
  std::vector<int> devices;
  if (channel.in >= 0) devices.push_back(channel.in);
  devices.insert(devices.end(), channel.gpus.begin(), channel.gpus.end());
  devices.push_back(channel.out >= 0 ? channel.out : channel.gpus.front());
  return devices;
}

std::string describe(const Graph& graph, const ChannelPlan& plan) {
  if (plan.channels.empty()) return "no channels: there is only one GPU\n";
  const bool over_network = plan.channels.front().in >= 0;
  std::string out = fmt::format(
      "{} {} of {:.4g} GB/s each: {:.4g} GB/s {}; the wires allow {:.4g}{}\nslowest: {}\n",
      plan.channels.size(), plan.channels.size() == 1 ? "channel" : "channels", plan.channel_gbs,
      plan.gbs(), over_network ? "into and out of each host" : "into and out of each GPU",
      plan.bound_gbs, plan.complete ? "" : " (not all sets of channels were tried)",
      slowest_text(graph, plan));
  for (std::size_t c = 0; c < plan.channels.size(); ++c) {
    out += fmt::format("{:>3}:", c);
    std::string_view arrow = " ";
    for (const int device : devices_of(plan.channels[c])) {
      out += fmt::format("{}{}", arrow, label(graph, device));
      arrow = " > ";
    }
    out += "\n";
  }
  return out;
}

Json json_of(const Graph& graph, const ChannelPlan& plan) {
  Json json = {{"gbs", plan.gbs()},
               {"bound_gbs", plan.channels.empty() ? 0 : plan.bound_gbs},
               {"channel_gbs", plan.channel_gbs},
               {"complete", plan.complete}};
  json["channels"] = Json::array();
  if (!plan.channels.empty()) json["slowest"] = slowest_text(graph, plan);
  for (const Channel& channel : plan.channels) {
    Json entry;
    if (channel.in >= 0) entry["in"] = label(graph, channel.in);
    entry["gpus"] = Json::array();
    for (const int gpu : channel.gpus) entry["gpus"].push_back(label(graph, gpu));
    if (channel.out >= 0) entry["out"] = label(graph, channel.out);
    json["channels"].push_back(std::move(entry));
  }
  return json;
}

}  // namespace rondo::topology
