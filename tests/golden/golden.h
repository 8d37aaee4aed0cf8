// Golden files: texts that the program says to people, kept whole in tests/golden/files, so that a
// change of code shows each word that it changes.
//
// RONDO_GOLDEN=write: the files become what the program says now; read their diff before you commit
// it. What differs from run to run is masked first; where order races, sort the lines first.
#pragma once

#include <string>

namespace rondo::test {

// `text` with what only one run has replaced: "<pid>" after "pid" or "process", "<s>" for seconds,
// "<ms>" for milliseconds, "<address>" for IPv4 and IPv6 addresses with their ports, "<pointer>".
std::string masked(std::string text);

// A failed expectation where tests/golden/files/`name` holds another text: it shows the first line
// that differs and the command that would accept it.
void expect_golden(const std::string& name, const std::string& text);

}  // namespace rondo::test
