# SPDX-License-Identifier: Apache-2.0
# A script of the build: writes the sources by which libnccl.so.2 is librondo.so.1 under NCCL's
# name, without a second copy of the code.
#   cmake -DNM=nm -DPROCESSOR=x86_64 -DOBJECTS=FILE -DTABLE=table.s -DJUMPS=jumps.s
#         -P forwarder.cmake
#
# FILE lists the objects that define the exported functions, one a line. table.s goes into
# librondo.so.1: the addresses of these functions, one after another. jumps.s is libnccl.so.2: each
# function jumps to its address in that table. The name of the table holds a hash of the list of
# functions, so a library does not load with another version's table.
file(STRINGS ${OBJECTS} objects)
execute_process(COMMAND ${NM} --defined-only --extern-only --format=posix ${objects}
                OUTPUT_VARIABLE symbols COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCHALL "\n(p?nccl|rondo)[A-Za-z0-9_]+ [TW] " symbols "\n${symbols}")
list(SORT symbols)
if(NOT symbols)
  message(FATAL_ERROR "the objects of ${OBJECTS} define no function of nccl.h or rondo.h")
endif()
string(MD5 hash "${symbols}")
string(SUBSTRING ${hash} 0 12 hash)
set(table rondo_entry_points_${hash})

set(addresses "")
set(jumps "")
set(offset 0)
foreach(symbol ${symbols})
  separate_arguments(symbol UNIX_COMMAND "${symbol}")
  list(POP_FRONT symbol name kind)
  string(APPEND addresses "  .quad ${name}\n")
  if(kind STREQUAL "W")
    set(binding weak)
  else()
    set(binding globl)
  endif()
  string(APPEND jumps "  .${binding} ${name}\n  .type ${name}, %function\n  .balign 16\n${name}:\n"
         "  .cfi_startproc\n")
  if(PROCESSOR STREQUAL "aarch64")
    string(APPEND jumps "  hint 34\n  adrp x16, :got:${table}\n"
           "  ldr x16, [x16, #:got_lo12:${table}]\n  ldr x16, [x16, #${offset}]\n  br x16\n")
  else()
    string(APPEND jumps "  endbr64\n  movq ${table}@GOTPCREL(%rip), %r11\n"
           "  jmp *${offset}(%r11)\n")
  endif()
  string(APPEND jumps "  .cfi_endproc\n  .size ${name}, . - ${name}\n")
  math(EXPR offset "${offset} + 8")
endforeach()
set(end "  .section .note.GNU-stack, \"\", %progbits\n")
file(WRITE ${TABLE} "  .section .data.rel.ro, \"aw\", %progbits\n  .balign 8\n  .globl ${table}\n"
     "  .type ${table}, %object\n${table}:\n${addresses}  .size ${table}, ${offset}\n${end}")
file(WRITE ${JUMPS} "  .text\n${jumps}${end}")
