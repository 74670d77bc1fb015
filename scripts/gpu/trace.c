// Records every kernel, copy and fill of an unchanged CUDA program: an injection that the driver loads into it.
// usage: CUDA_INJECTION64_PATH=libqrl_trace.so QRL_TRACE_OUT=FILE COMMAND; scripts/gpu/profile makes a table of FILE.
// CUPTI (libcupti.so.13, by QRL_TRACE_CUPTI or the library path) stamps each with the GPU's clock. No counters are
// read, so no rights are needed. FILE: "QRLTRC1\n", u64 records, u32 names, zero-terminated names, records.
#define _GNU_SOURCE
#include <cupti.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Times in nanoseconds; grid of a copy: KiB, 0, 0. scripts/gpu/trace_table.py reads it.
typedef struct {
  uint64_t start, end;
  uint32_t name, grid[3], block, shared_bytes, registers, stream;
} Record;

static Record *records;
static size_t num_records, room;
static char **names;
static uint32_t num_names, names_room;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static CUptiResult (*get_next)(uint8_t *, size_t, CUpti_Activity **);
static CUptiResult (*flush_all)(uint32_t);
enum { BUFFER_BYTES = 8 << 20 };

static void *grown(void *memory, size_t bytes) {
  void *more = realloc(memory, bytes);
  if (more == NULL) {
    fprintf(stderr, "trace: out of memory\n");
    abort();
  }
  return more;
}

/// The index of a name, as it is or made now. CUPTI keeps a kernel's name where it is.
static uint32_t name_index(const char *name) {
  static const char *last_name;
  static uint32_t last;
  if (name == last_name) return last;
  last_name = name;
  for (last = 0; last < num_names; ++last)
    if (strcmp(names[last], name) == 0) return last;
  if (num_names == names_room) names = grown(names, (names_room = names_room * 2 + 256) * sizeof *names);
  if ((names[num_names] = strdup(name)) == NULL) abort();
  return last = num_names++;
}

static void add(Record record) {
  if (num_records == room) records = grown(records, (room = room * 2 + 65536) * sizeof *records);
  records[num_records++] = record;
}

static void add_activity(const CUpti_Activity *activity) {
  if (activity->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) {
    const CUpti_ActivityKernel10 *k = (const CUpti_ActivityKernel10 *)activity;
    add((Record){k->start, k->end, name_index(k->name ? k->name : "?"),
                 {(uint32_t)k->gridX, (uint32_t)k->gridY, (uint32_t)k->gridZ},
                 (uint32_t)(k->blockX * k->blockY * k->blockZ), (uint32_t)(k->dynamicSharedMemory + k->staticSharedMemory),
                 k->registersPerThread, k->streamId});
  } else if (activity->kind == CUPTI_ACTIVITY_KIND_MEMCPY) {
    const CUpti_ActivityMemcpy6 *m = (const CUpti_ActivityMemcpy6 *)activity;
    const char *name = m->copyKind == CUPTI_ACTIVITY_MEMCPY_KIND_HTOD   ? "copy to the device"
                       : m->copyKind == CUPTI_ACTIVITY_MEMCPY_KIND_DTOH ? "copy to the host"
                                                                        : "copy";
    add((Record){m->start, m->end, name_index(name), {(uint32_t)(m->bytes >> 10), 0, 0}, 0, 0, 0, m->streamId});
  } else if (activity->kind == CUPTI_ACTIVITY_KIND_MEMSET) {
    const CUpti_ActivityMemset4 *m = (const CUpti_ActivityMemset4 *)activity;
    add((Record){m->start, m->end, name_index("fill"), {(uint32_t)(m->bytes >> 10), 0, 0}, 0, 0, 0, m->streamId});
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
  pthread_mutex_lock(&lock);
  while (get_next(buffer, valid, &activity) == CUPTI_SUCCESS) add_activity(activity);
  pthread_mutex_unlock(&lock);
  free(buffer);
}

static void write_trace(void) {
  if (flush_all != NULL) flush_all(1);
  pthread_mutex_lock(&lock);
  const char *path = getenv("QRL_TRACE_OUT");
  FILE *out = path == NULL ? NULL : fopen(path, "wb");
  if (out != NULL) {
    const uint64_t count = num_records;
    fwrite("QRLTRC1\n", 1, 8, out);
    fwrite(&count, sizeof count, 1, out);
    fwrite(&num_names, sizeof num_names, 1, out);
    for (uint32_t i = 0; i < num_names; ++i) fwrite(names[i], 1, strlen(names[i]) + 1, out);
    fwrite(records, sizeof *records, num_records, out);
    if (fclose(out) != 0) out = NULL;
  }
  if (out == NULL) fprintf(stderr, "trace: expected a file that can be written in QRL_TRACE_OUT, got %s\n", path ? path : "none");
  pthread_mutex_unlock(&lock);
}

/// Called by the driver when it is initialized. A program without a GPU calls it in tests. Always returns 1: the
/// program runs on untraced where CUPTI fails, which is said.
__attribute__((visibility("default"))) int InitializeInjection(void) {
  static int begun;
  if (begun++) return 1;
  const char *path = getenv("QRL_TRACE_CUPTI");
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
  if (!callbacks || !enable || !get_next || !flush_all) {
    fprintf(stderr, "trace: libcupti lacks the activity functions\n");
    return 1;
  }
  atexit(write_trace);
  const CUptiResult done[] = {callbacks(buffer_requested, buffer_completed), enable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL),
                              enable(CUPTI_ACTIVITY_KIND_MEMCPY), enable(CUPTI_ACTIVITY_KIND_MEMSET)};
  for (size_t i = 0; i < sizeof done / sizeof *done; ++i)
    if (done[i] != CUPTI_SUCCESS) fprintf(stderr, "trace: CUPTI's call %zu failed with %d\n", i, (int)done[i]);
  return 1;
}
