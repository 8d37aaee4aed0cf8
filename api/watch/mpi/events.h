// SPDX-License-Identifier: Apache-2.0
// Reports the calls of an MPI program to librondo-watch.so, for wrappers of MPI's functions.
//
// A handle of MPI (communicator, type) is an int in MPICH and Intel MPI, and a pointer in Open MPI
// and in the ABI of MPI 5: wrappers take it as a pointer, and it is read here as this process's MPI
// does. Guarantees: nothing here fails a call of the program, and no rank waits for another one or
// sends it anything; before begin_watch() and after end_watch() nothing is recorded. Threads may
// call at once, except those two. Cost: a lock and two calls of librondo-watch.so for each event; a
// communicator's first takes longer.
#pragma once

typedef void* Any;  // a handle of MPI, or an address

// PMPI_<name> of the program's MPI; ends the process by name if it has none.
typedef void (*MpiFunction)(void);
MpiFunction mpi_function(const char* name);

void begin_watch(void);  // after MPI_Init
void end_watch(void);    // before MPI_Finalize
// A new communicator of this process, by the address of its handle, and one that is about to go.
void add_communicator(const Any* communicator);
void drop_communicator(const Any* communicator);

// An event that is under way; null: not recorded. function: as NCCL names it; MPI_Send or MPI_Recv
// for a message.
typedef void* Event;
// count: 0 where ranks may give different ones. root: -1 without one.
Event enter_collective(const char* function, Any communicator, int count, Any type, int root);
// peer: negative: any rank, or none.
Event enter_message(const char* function, Any communicator, int count, Any type, int peer);
void leave(Event event);
