// SPDX-License-Identifier: Apache-2.0
/* A tuner plugin for tests, in plain C: all versions of NCCL's interface, one alone, or none.
 *
 * The variable RONDO_TEST_TUNER sets its behaviour. It is read when a context starts; its words:
 *   algorithm=A protocol=P  makes that entry of the table cost 0, or chooses it (version 2)
 *   max_bytes=N             only for calls of at most N bytes
 *   function=F              only for this function (4: all-reduce)
 *   channels=N              requests N channels
 *   dearer=N                adds N microseconds to every LL ring and tree
 *   alternate=1             every second context chooses Ring with Simple instead
 *   restless=1              each answer of a context differs from the previous one
 *   fail=init               or getCollInfo, or finalize
 */
#ifndef RONDO_TEST_TUNER_H_
#define RONDO_TEST_TUNER_H_

#ifdef __cplusplus
extern "C" {
#endif

/* "contexts" that are alive, "inits", "asks", "complaints" about invalid arguments. */
typedef long (*rondo_test_tuner_count_t)(const char* what);

#ifdef __cplusplus
}
#endif
#endif
