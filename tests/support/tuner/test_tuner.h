/* A tuner plugin for tests, in plain C: all versions of NCCL's interface, each alone, or none.
 *
 * Words say what it does; those of RONDO_TEST_TUNER, read whenever a context starts:
 *   algorithm=A protocol=P  makes that entry of the table cost 0, or chooses it (version 2)
 *   most=N                  for calls of at most N bytes alone
 *   function=F              for this function alone (4: all-reduce)
 *   channels=N              asks for N channels
 *   dearer=N                adds N microseconds to every ring and tree by LL
 *   alternate=1             every second context chooses Ring by Simple instead
 *   restless=1              each answer of a context differs from the one before
 *   fail=init               or getCollInfo, or finalize
 */
#ifndef RONDO_TEST_TUNER_H_
#define RONDO_TEST_TUNER_H_

#ifdef __cplusplus
extern "C" {
#endif

/* "contexts" that have not ended, "inits", "asks", "complaints" of arguments that make no sense. */
typedef long (*rondo_test_tuner_count_t)(const char* what);

#ifdef __cplusplus
}
#endif
#endif
