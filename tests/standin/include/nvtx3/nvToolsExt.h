/* nvToolsExt: ranges and marks. The stand-in counts the depth of ranges (standin_range_depth in tests/standin/standin.h) and keeps nothing else. */
#ifndef STANDIN_NVTOOLSEXT_H
#define STANDIN_NVTOOLSEXT_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define NVTX_VERSION 3
#define NVTX_NO_PUSH_POP_TRACKING ((int)-2)

typedef struct nvtxDomainRegistration_st *nvtxDomainHandle_t;
typedef uint64_t nvtxRangeId_t;

int nvtxRangePushA(const char *message);
int nvtxRangePop(void);
nvtxRangeId_t nvtxRangeStartA(const char *message);
void nvtxRangeEnd(nvtxRangeId_t id);
void nvtxMarkA(const char *message);
nvtxDomainHandle_t nvtxDomainCreateA(const char *name);
void nvtxDomainDestroy(nvtxDomainHandle_t domain);
void nvtxNameOsThreadA(uint32_t threadId, const char *name);

#define nvtxRangePush nvtxRangePushA
#define nvtxRangeStart nvtxRangeStartA
#define nvtxMark nvtxMarkA
#define nvtxDomainCreate nvtxDomainCreateA
#define nvtxNameOsThread nvtxNameOsThreadA

#ifdef __cplusplus
}
#endif

#endif
