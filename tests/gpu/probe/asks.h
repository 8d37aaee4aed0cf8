// SPDX-License-Identifier: Apache-2.0
// The probes, by file. The question of each is in questions.cc.
#pragma once

namespace probe {

void ask_present(), ask_device(), ask_tools(), ask_peers();                   // device.cc
void ask_ipc(), ask_files();                                                  // sharing.cc
void ask_pools(), ask_registration();                                         // allocations.cc
void ask_multicast();                                                         // multicast.cu
void ask_cooperative();                                                       // cooperative.cu
void ask_launches();                                                          // launches.cu
void ask_captured_events();                                                   // captured_events.cu
void ask_stream_memory(), ask_stream_memory_graphs(), ask_waiting_streams();  // stream_memory.cu
void ask_loading(), ask_calls_beside(), ask_queues();                         // beside.cu
void ask_handoff(), ask_handoff_copies(), ask_handoff_ipc();                  // handoff.cu
void ask_time_slices(), ask_l2();                                             // handoff.cu
void ask_fences();                                                            // fences.cu
void ask_barriers();                                                          // barriers.cu
void ask_host_memory(), ask_host_order();                                     // host_memory.cu
void ask_lines(), ask_lines_host(), ask_lines_processes(), ask_lines_peer();  // lines.cu
void ask_copies(), ask_host_copies();                                         // copies.cu
void ask_planted_hang(), ask_planted_abort(), ask_planted_end();              // planted.cc

}  // namespace probe
