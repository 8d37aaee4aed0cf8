/* SPDX-License-Identifier: Apache-2.0 */
/* A minimal profiler. NVTX loads it through NVTX_INJECTION64_PATH, and it writes each event as one
   line to stdout:

     schema Call 32 bytes: Communicator Count Datatype ...
     push NCCL ncclAllReduce count=4 type=7 op=0 root=-1
     pop
*/
#include <nvtx3/nvToolsExt.h>
#include <nvtx3/nvToolsExtPayload.h>
#include <stdint.h>
#include <stdio.h>

struct call_facts { /* must match the schema; its size and names are checked */
  const void* comm;
  uint64_t count;
  int32_t type, op, root;
};

static const char* domain_name = "?";
static int domain;

static nvtxDomainHandle_t create_domain(const char* name) {
  domain_name = name;
  return (nvtxDomainHandle_t)&domain;
}

static int push(nvtxDomainHandle_t in, const nvtxEventAttributes_t* event) {
  printf("push %s %s", (void*)in == (void*)&domain ? domain_name : "?", event->message.ascii);
  if (event->payloadType == NVTX_PAYLOAD_TYPE_EXT && event->reserved0 == 1) {
    const nvtxPayloadData_t* data = (const nvtxPayloadData_t*)(uintptr_t)event->payload.ullValue;
    const struct call_facts* facts = data->payload;
    if (data->schemaId == 1000 && data->size == sizeof(*facts))
      printf(" comm=%p count=%llu type=%d op=%d root=%d", facts->comm,
             (unsigned long long)facts->count, facts->type, facts->op, facts->root);
  }
  printf("\n");
  return 0;
}

static int pop(nvtxDomainHandle_t in) {
  printf("%s\n", (void*)in == (void*)&domain ? "pop" : "pop of another domain");
  return 0;
}

static uint64_t register_schema(nvtxDomainHandle_t in, const nvtxPayloadSchemaAttr_t* schema) {
  (void)in;
  printf("schema %s %zu bytes:", schema->name, schema->payloadStaticSize);
  for (size_t i = 0; i < schema->numEntries; ++i)
    printf(" [%s at %llu]", schema->entries[i].name, (unsigned long long)schema->entries[i].offset);
  printf("\n");
  return 1000;
}

static uint64_t register_enum(nvtxDomainHandle_t in, const nvtxPayloadEnumAttr_t* attributes) {
  (void)in;
  return attributes->numEntries;
}

int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_table) {
  const NvtxExportTableCallbacks* callbacks = get_table(NVTX_ETID_CALLBACKS);
  NvtxFunctionTable table = 0;
  unsigned int size = 0;
  if (callbacks == 0 || !callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &table, &size) ||
      size <= NVTX_CBID_CORE2_DomainRangePop)
    return 0;
  *table[NVTX_CBID_CORE2_DomainCreateA] = (NvtxFunctionPointer)create_domain;
  *table[NVTX_CBID_CORE2_DomainRangePushEx] = (NvtxFunctionPointer)push;
  *table[NVTX_CBID_CORE2_DomainRangePop] = (NvtxFunctionPointer)pop;
  return 1;
}

int InitializeInjectionNvtxExtension(nvtxExtModuleInfo_t* module) {
  for (size_t i = 0; i < module->segmentsCount; ++i) {
    nvtxExtModuleSegment_t* segment = &module->segments[i];
    if (segment->slotCount <= NVTX3EXT_CBID_nvtxPayloadEnumRegister) continue;
    segment->functionSlots[NVTX3EXT_CBID_nvtxPayloadSchemaRegister] = (intptr_t)register_schema;
    segment->functionSlots[NVTX3EXT_CBID_nvtxPayloadEnumRegister] = (intptr_t)register_enum;
  }
  return 1;
}
