// SPDX-License-Identifier: Apache-2.0
// The document that gpu_probe prints: one JSON object, complete at any time; and its table.
#pragma once

#include <string>

#include "runner.h"

namespace probe {

class Report {
 public:
  // Every requested probe is in the document from the start, as "not run".
  void expect(const Question& question);
  void set_device(Json device, const std::string& why_none);
  void add(const Question& question, const Outcome& outcome);
  void cannot(const Question& question, const std::string& status, const std::string& reason);

  std::string text(double seconds) const;                    // the document
  void save(const std::string& path, double seconds) const;  // by rename
  void print_assumptions() const;                            // to standard error
  bool all_answered() const;                                 // ok or unsupported

 private:
  Json assumptions() const;

  Json device_, probes_ = Json::object();
  std::string why_none_;
};

}  // namespace probe
