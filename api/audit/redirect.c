/* SPDX-License-Identifier: Apache-2.0 */
/* librondo_audit.so: redirects programs that load NCCL by a full path or an RPATH to Rondo.
 *
 *   LD_AUDIT=/path/librondo_audit.so program
 *
 * LD_PRELOAD works for programs that load "libnccl.so.2" by this name, but not for those that load
 * a path, as Python wheels do. This shim (see rtld-audit(7)) replaces every request for a file
 * named libnccl.so, libnccl.so.2 or libnccl.so.2.x by the libnccl.so.2 in the shim's own folder.
 * Requests for other names are unchanged. Cost: a string comparison per library that the program
 * loads, nothing per call.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define AUDIT_EXPORT __attribute__((visibility("default")))

static char replacement[4096]; /* empty: no library in the shim's folder */

AUDIT_EXPORT unsigned int la_version(unsigned int version) {
  Dl_info self;
  if (dladdr((void*)&la_version, &self) == 0 || self.dli_fname == NULL) return version;
  const char* slash = strrchr(self.dli_fname, '/');
  const int folder = slash == NULL ? 0 : (int)(slash - self.dli_fname) + 1;
  const int length =
      snprintf(replacement, sizeof(replacement), "%.*slibnccl.so.2", folder, self.dli_fname);
  if (length < 0 || (size_t)length >= sizeof(replacement) || access(replacement, R_OK) != 0) {
    fprintf(stderr, "librondo_audit.so: no libnccl.so.2 beside %s: NCCL is not replaced\n",
            self.dli_fname);
    replacement[0] = '\0';
  }
  return version;
}

static int names_nccl(const char* path) {
  static const char kStem[] = "libnccl.so";
  const char* slash = strrchr(path, '/');
  const char* file = slash == NULL ? path : slash + 1;
  if (strncmp(file, kStem, sizeof(kStem) - 1) != 0) return 0;
  const char* rest = file + sizeof(kStem) - 1;
  return strcmp(rest, "") == 0 || strcmp(rest, ".2") == 0 || strncmp(rest, ".2.", 3) == 0;
}

AUDIT_EXPORT char* la_objsearch(const char* name, uintptr_t* cookie, unsigned int flag) {
  (void)cookie;
  if (flag == LA_SER_ORIG && replacement[0] != '\0' && names_nccl(name)) return replacement;
  return (char*)name;
}
