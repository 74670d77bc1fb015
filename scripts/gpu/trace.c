// Writes down every kernel, copy and fill of an unchanged CUDA program: an injection that the driver loads into it.
// usage: CUDA_INJECTION64_PATH=libqrl_trace.so QRL_TRACE_OUT=FOLDER COMMAND; scripts/gpu/profile makes a table of FOLDER.
// CUPTI (libcupti.so.13, by QRL_TRACE_CUPTI or the library path) stamps each with the GPU's clock. No counters are
// read, so no rights are needed. Each process has a file of its own, FOLDER/PID.
#define _GNU_SOURCE
#include <cupti.h>
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static CUptiResult (*get_next)(uint8_t *, size_t, CUpti_Activity **);
static CUptiResult (*flush_all)(uint32_t);
static FILE *out;
static pid_t owner;  // of `out`: a process that it forks inherits both
enum { BUFFER_BYTES = 8 << 20 };

/// A line: begin and end in nanoseconds, grid (of a copy its KiB, 0, 0), threads of a block, bytes of shared memory,
/// registers, name.
static void write_line(uint64_t begin, uint64_t end, uint64_t x, int y, int z, int block, int shared_bytes, int registers,
                       const char *name) {
  fprintf(out, "%llu %llu %llu %d %d %d %d %d %.512s\n", (unsigned long long)begin, (unsigned long long)end,
          (unsigned long long)x, y, z, block, shared_bytes, registers, name);
}

static void write_activity(const CUpti_Activity *activity) {
  if (activity->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) {
    const CUpti_ActivityKernel10 *k = (const CUpti_ActivityKernel10 *)activity;
    write_line(k->start, k->end, (uint64_t)k->gridX, k->gridY, k->gridZ, k->blockX * k->blockY * k->blockZ,
               k->dynamicSharedMemory + k->staticSharedMemory, k->registersPerThread, k->name ? k->name : "?");
  } else if (activity->kind == CUPTI_ACTIVITY_KIND_MEMCPY) {
    const CUpti_ActivityMemcpy6 *m = (const CUpti_ActivityMemcpy6 *)activity;
    write_line(m->start, m->end, m->bytes >> 10, 0, 0, 0, 0, 0,
               m->copyKind == CUPTI_ACTIVITY_MEMCPY_KIND_HTOD   ? "copy to the device"
               : m->copyKind == CUPTI_ACTIVITY_MEMCPY_KIND_DTOH ? "copy to the host"
                                                                : "copy");
  } else if (activity->kind == CUPTI_ACTIVITY_KIND_MEMSET) {
    const CUpti_ActivityMemset4 *m = (const CUpti_ActivityMemset4 *)activity;
    write_line(m->start, m->end, m->bytes >> 10, 0, 0, 0, 0, 0, "fill");
  }
}

static void CUPTIAPI buffer_requested(uint8_t **buffer, size_t *size, size_t *max_records) {
  *buffer = aligned_alloc(64, BUFFER_BYTES);
  *size = *buffer == NULL ? 0 : BUFFER_BYTES;
  *max_records = 0;
}

static void CUPTIAPI buffer_completed(CUcontext context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid) {
  (void)context, (void)stream, (void)size;
  CUpti_Activity *activity = NULL;
  while (get_next(buffer, valid, &activity) == CUPTI_SUCCESS) write_activity(activity);
  if (fflush(out) != 0) perror("trace: cannot write");  // at once, so that no forked process has lines to write again
  free(buffer);
}

static void write_the_rest(void) {
  if (getpid() == owner) flush_all(1);
}

/// Called by the driver when it is initialized. A program without a GPU calls it in tests. Always returns 1: the
/// program runs on untraced where CUPTI fails, which is said.
int InitializeInjection(void) {
  if (owner != 0) return 1;
  owner = getpid();
  const char *path = getenv("QRL_TRACE_CUPTI"), *folder = getenv("QRL_TRACE_OUT");
  void *cupti = dlopen(path != NULL ? path : "libcupti.so.13", RTLD_NOW | RTLD_GLOBAL);
  if (cupti == NULL) {
    fprintf(stderr, "trace: %s\n", dlerror());
    return 1;
  }
  CUptiResult (*callbacks)(CUpti_BuffersCallbackRequestFunc, CUpti_BuffersCallbackCompleteFunc);
  CUptiResult (*enable)(CUpti_ActivityKind);
  *(void **)&callbacks = dlsym(cupti, "cuptiActivityRegisterCallbacks");
  *(void **)&enable = dlsym(cupti, "cuptiActivityEnable");
  *(void **)&get_next = dlsym(cupti, "cuptiActivityGetNextRecord");
  *(void **)&flush_all = dlsym(cupti, "cuptiActivityFlushAll");
  char file[4096];
  snprintf(file, sizeof file, "%s/%d", folder != NULL ? folder : "", (int)owner);
  if (!callbacks || !enable || !get_next || !flush_all) {
    fprintf(stderr, "trace: libcupti lacks the activity functions\n");
    return 1;
  }
  if ((out = fopen(file, "w")) == NULL) {
    fprintf(stderr, "trace: expected a folder that can be written in QRL_TRACE_OUT, got %s\n", folder ? folder : "none");
    return 1;
  }
  atexit(write_the_rest);
  const CUptiResult done[] = {callbacks(buffer_requested, buffer_completed), enable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL),
                              enable(CUPTI_ACTIVITY_KIND_MEMCPY), enable(CUPTI_ACTIVITY_KIND_MEMSET)};
  for (size_t i = 0; i < sizeof done / sizeof *done; ++i)
    if (done[i] != CUPTI_SUCCESS) fprintf(stderr, "trace: CUPTI's call %zu failed with %d\n", i, (int)done[i]);
  return 1;
}
