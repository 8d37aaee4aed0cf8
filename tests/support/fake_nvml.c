/* SPDX-License-Identifier: Apache-2.0 */
/* A fake NVML that tests script. RONDO_FAKE_NVML has lines of
 *   BUS_ID MAJOR.MINOR [LINK...] [c2c=MEGABYTES,...] [mig=INSTANCES] [fabric=BYTE,CLIQUE,STATE]
 * LINK: s (up, to an NVSwitch), h (up, hidden: the other end is unknown), c (to a CPU), d (down),
 * or the bus id of a GPU. MEGABYTES below 0: the link is down. INSTANCES: the GPU is in MIG mode;
 * every other index is unused. BYTE: all 16 bytes of the UUID of its NVLink fabric. A first line
 * "dead": the driver does not respond. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kOk = 0, kInvalid = 2, kNotSupported = 3, kNotFound = 6, kNotLoaded = 9 };
enum { kMax = 16, kLinks = 36, kMaxInstances = 7 };

struct pci {
  char old_bus_id[16];
  unsigned domain, bus, device, ids, subsystem;
  char bus_id[32];
};

struct field {
  unsigned field, scope;
  long long time, latency;
  int type, result;
  union {
    unsigned number;
    unsigned long long wide;
  } value;
};

struct gpu {
  char bus_id[32];
  int major, minor, links, c2c_links;
  int cut, instances;
  char link[kLinks][32];
  int c2c[kLinks];
  int cluster, clique, fabric_state;
};

struct fabric {
  unsigned version;
  unsigned char cluster[16];
  int status;
  unsigned clique;
  unsigned char state;
  unsigned health;
};

static struct gpu gpus[kMax];
static unsigned count;

static void read_word(struct gpu* gpu, char* word) {
  if (sscanf(word, "mig=%d", &gpu->instances) == 1) {
    gpu->cut = 1;
    return;
  }
  if (sscanf(word, "fabric=%d,%d,%d", &gpu->cluster, &gpu->clique, &gpu->fabric_state) == 3) return;
  if (strncmp(word, "c2c=", 4) != 0) {
    snprintf(gpu->link[gpu->links++], sizeof gpu->link[0], "%s", word);
    return;
  }
  char* rest = NULL;
  for (char* part = strtok_r(word + 4, ",", &rest); part != NULL; part = strtok_r(NULL, ",", &rest))
    gpu->c2c[gpu->c2c_links++] = atoi(part);
}

int nvmlInit_v2(void) {
  const char* script = getenv("RONDO_FAKE_NVML");
  count = 0;
  memset(gpus, 0, sizeof gpus);
  if (script == NULL || strncmp(script, "dead", 4) == 0) return kNotLoaded;
  char* text = strdup(script);
  char *lines = NULL, *words = NULL;
  for (char* line = strtok_r(text, "\n", &lines); line != NULL && count < kMax;
       line = strtok_r(NULL, "\n", &lines)) {
    struct gpu* gpu = &gpus[count++];
    char* word = strtok_r(line, " ", &words);
    snprintf(gpu->bus_id, sizeof gpu->bus_id, "%s", word);
    word = strtok_r(NULL, " ", &words);
    sscanf(word, "%d.%d", &gpu->major, &gpu->minor);
    while ((word = strtok_r(NULL, " ", &words)) != NULL) read_word(gpu, word);
  }
  free(text);
  return kOk;
}

int nvmlShutdown(void) { return kOk; }

const char* nvmlErrorString(int result) {
  return result == kNotLoaded ? "Driver Not Loaded" : "Unknown Error";
}

int nvmlDeviceGetCount_v2(unsigned* into) {
  *into = count;
  return kOk;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, struct gpu** device) {
  *device = &gpus[index];
  return strcmp(gpus[index].bus_id, "lost") == 0 ? kNotSupported : kOk;
}

static int fill(struct pci* pci, const char* bus_id) {
  memset(pci, 0, sizeof *pci);
  snprintf(pci->bus_id, sizeof pci->bus_id, "%s", bus_id);
  return sscanf(bus_id, "%x:%x:%x", &pci->domain, &pci->bus, &pci->device) == 3 ? kOk : kInvalid;
}

int nvmlDeviceGetPciInfo_v3(struct gpu* gpu, struct pci* pci) { return fill(pci, gpu->bus_id); }

int nvmlDeviceGetCudaComputeCapability(struct gpu* gpu, int* major, int* minor) {
  *major = gpu->major;
  *minor = gpu->minor;
  return kOk;
}

int nvmlDeviceGetNvLinkState(struct gpu* gpu, unsigned link, int* up) {
  if ((int)link >= gpu->links) return kInvalid;
  *up = strcmp(gpu->link[link], "d") != 0;
  return kOk;
}

int nvmlDeviceGetNvLinkRemoteDeviceType(struct gpu* gpu, unsigned link, int* kind) {
  const char* what = gpu->link[link];
  if (strcmp(what, "h") == 0) return kNotSupported;
  *kind = strcmp(what, "s") == 0 ? 2 : strcmp(what, "c") == 0 ? 1 : 0;
  return kOk;
}

int nvmlDeviceGetNvLinkRemotePciInfo_v2(struct gpu* gpu, unsigned link, struct pci* pci) {
  return fill(pci, gpu->link[link]) == kOk ? kOk : kNotSupported;
}

int nvmlDeviceGetMigMode(struct gpu* gpu, unsigned* now, unsigned* pending) {
  if (gpu->major < 8) return kNotSupported;
  *now = *pending = (unsigned)gpu->cut;
  return kOk;
}

int nvmlDeviceGetMaxMigDeviceCount(struct gpu* gpu, unsigned* maximum) {
  *maximum = gpu->major < 8 ? 0 : kMaxInstances;
  return kOk;
}

int nvmlDeviceGetMigDeviceHandleByIndex(struct gpu* gpu, unsigned index, struct gpu** instance) {
  if (index % 2 != 0 || (int)index / 2 >= gpu->instances) return kNotFound;
  *instance = gpu;
  return kOk;
}

int nvmlDeviceGetGpuFabricInfoV(struct gpu* gpu, struct fabric* info) {
  if (info->version != (2u << 24 | sizeof *info)) return kInvalid;
  if (gpu->fabric_state == 0) return kNotSupported;
  memset(info->cluster, gpu->cluster, sizeof info->cluster);
  info->status = kOk;
  info->clique = (unsigned)gpu->clique;
  info->state = (unsigned char)gpu->fabric_state;
  info->health = 0;
  return kOk;
}

int nvmlDeviceGetFieldValues(struct gpu* gpu, int fields, struct field* field) {
  for (int i = 0; i < fields; ++i) {
    field[i].result = kOk;
    field[i].type = 1;
    if (field[i].field == 170) {
      field[i].value.number = (unsigned)gpu->c2c_links;
    } else if (field[i].field == 171) {
      field[i].value.number = gpu->c2c[field[i].scope] > 0;
    } else if (field[i].field == 172) {
      field[i].type = 3;
      field[i].value.wide = (unsigned long long)abs(gpu->c2c[field[i].scope]);
    } else {
      field[i].result = kNotSupported;
    }
  }
  return kOk;
}
