"""The C code between ONNX Runtime and kernels: shapes, strides and threads.

Declares only the parts of ONNX Runtime's C API that it needs: a table of functions whose order is frozen, and one struct.
"""

from typing import Final

from passat.runtime.kernels.columns import LANES
from passat.runtime.kernels.groups import MOST_DIMENSIONS, MOST_INPUTS, MOST_OUTPUTS

LEVELS: Final = {"k": "", "v3": "avx2,fma,f16c", "v4": "avx2,fma,f16c,avx512f,avx512dq,avx512vl,avx512bw"}
"""The prefixes of names, by instruction set: everything is compiled for any processor of the kind, and for those with more instructions."""
HEAD: Final = rf"""
#include <stddef.h>
#include <stdint.h>
#define F16C 0
#define MOST_INPUTS {MOST_INPUTS}
#define MOST_OUTPUTS {MOST_OUTPUTS}
#define MOST_DIMENSIONS {MOST_DIMENSIONS}
#define LANES {LANES}
#define FMAF(x, y, z) ((x) * (y) + (z))
#define FMA(x, y, z) ((x) * (y) + (z))
"""

RUNTIME: Final = r"""
typedef struct Status Status;
typedef struct Context Context;
typedef struct Value Value;
typedef struct Info Info;
typedef struct Domain Domain;
typedef struct Options Options;
typedef const void* const* Api;
typedef struct { Api (*get_api)(uint32_t); const char* (*version)(void); } ApiBase;
typedef struct Op Op;
struct Op {
  uint32_t version;
  void* (*create)(const Op*, Api, const void*);
  const char* (*name)(const Op*);
  const char* (*provider)(const Op*);
  int (*input_type)(const Op*, size_t);
  size_t (*input_count)(const Op*);
  int (*output_type)(const Op*, size_t);
  size_t (*output_count)(const Op*);
  void (*compute)(void*, Context*);
  void (*destroy)(void*);
  int (*input_characteristic)(const Op*, size_t);
  int (*output_characteristic)(const Op*, size_t);
  int (*input_memory)(const Op*, size_t);
  int (*variadic_input_least)(const Op*);
  int (*variadic_input_alike)(const Op*);
  int (*variadic_output_least)(const Op*);
  int (*variadic_output_alike)(const Op*);
  Status* (*create_checked)(const Op*, Api, const void*, void**);
  Status* (*compute_checked)(void*, Context*);
};
typedef struct { unsigned char type, size, form; } Tensor;  /* form 0: all elements, 1: one along the block, 2: without its axes */
typedef void (*Rows)(const char* const*, const int64_t*, const int64_t*, char* const*, int64_t, int64_t, int64_t, const int64_t*, int64_t,
                     int64_t);
typedef struct {
  Op op;
  const char* name;
  size_t inputs, outputs, rank;
  int reduces, columns, halves;  /* halves: the function gets float32 in place of float16 */
  size_t first, last;  /* the block: axes that are reduced; of columns, they are not the last */
  size_t outer, end;  /* a second block before it, or none */
  const Tensor* tensors;  /* inputs, then outputs */
  Rows rows[LEVELS];
} Kernel;
static Api api;
static int level;  /* of instructions */
#define CALL(number, ...) ((Status* (*)(__VA_ARGS__))api[number])
#define FAIL(text) (((Status* (*)(int, const char*))api[0])(1, text))
#define TRY(call) do { Status* failure = (call); if (failure) return failure; } while (0)
#define BLOCK 16384
#define HALVES 1024
typedef struct {
  const Kernel* kernel;
  const char* x[MOST_INPUTS];
  char* y[MOST_OUTPUTS];
  int rank;
  int64_t dims[MOST_DIMENSIONS + 1], strides[MOST_INPUTS][MOST_DIMENSIONS + 1], rows, parts, rows_each;
  int64_t outers, outer_strides[MOST_INPUTS], between, step;  /* of a second block: rows between it and the first, stride of outputs */
} Job;
static int64_t wide_row(const Job* job, int64_t row) {  /* the number of the first of the rows that are reduced to one */
  return row / job->between * job->between * job->outers + row % job->between;
}
#if HAS_HALVES
static void call_on_halves(const Kernel* kernel, const char* const* x, const int64_t* between, const int64_t* along, char* const* y,
                           int64_t m, int64_t n) {
  float in[MOST_INPUTS][HALVES], out[MOST_OUTPUTS][HALVES];
  int64_t part = n < HALVES ? n : HALVES, most = n && n < HALVES ? HALVES / n : 1;
  for (int64_t row = 0; row < m; row += most) {
    int64_t many = m - row < most ? m - row : most;
    for (int64_t from = 0; from < n; from += part) {
      const char* a[MOST_INPUTS];
      char* b[MOST_OUTPUTS];
      int64_t count = n - from < part ? n - from : part;
      for (size_t i = 0; i < kernel->inputs; ++i) {
        a[i] = x[i] + (row * between[i] + from * along[i]) * kernel->tensors[i].size;
        if (kernel->tensors[i].type != FLOAT16) continue;
        read_halves[level]((const uint16_t*)a[i], in[i], (between[i] ? many : 1) * (along[i] ? count : 1));
        a[i] = (const char*)in[i];
      }
      for (size_t i = 0; i < kernel->outputs; ++i) {
        const Tensor* tensor = &kernel->tensors[kernel->inputs + i];
        b[i] = tensor->type == FLOAT16 ? (char*)out[i] : y[i] + (row * n + from) * tensor->size;
      }
      kernel->rows[level](a, between, along, b, many, count, 0, 0, 1, 0);
      for (size_t i = 0; i < kernel->outputs; ++i) {
        if (kernel->tensors[kernel->inputs + i].type != FLOAT16) continue;
        write_halves[level](out[i], (uint16_t*)y[i] + row * n + from, many * count);
      }
    }
  }
}
#else
#define call_on_halves(...) (void)0  /* no kernel of this library has float16 */
#endif
static void run_rows(const Job* job, int64_t row, int64_t end, int64_t from, int64_t count) {
  const Kernel* kernel = job->kernel;
  int last = job->rank - 1;
  int64_t along[MOST_INPUTS], between[MOST_INPUTS], alike = last ? job->dims[last - 1] : 1;
  for (size_t i = 0; i < kernel->inputs; ++i) {
    along[i] = job->strides[i][last];
    between[i] = last ? job->strides[i][last - 1] : 0;
  }
  while (row < end) {
    const char* x[MOST_INPUTS];
    char* y[MOST_OUTPUTS];
    int64_t rest = row, many = kernel->end ? 1 : alike - row % alike;
    if (many > end - row) many = end - row;
    for (size_t i = 0; i < kernel->inputs; ++i) x[i] = job->x[i] + from * along[i] * kernel->tensors[i].size;
    for (int d = last - 1; d >= 0; --d) {
      int64_t at = rest % job->dims[d];
      rest /= job->dims[d];
      for (size_t i = 0; i < kernel->inputs; ++i) x[i] += at * job->strides[i][d] * kernel->tensors[i].size;
    }
    for (size_t i = 0; i < kernel->outputs; ++i) {
      const Tensor* tensor = &kernel->tensors[kernel->inputs + i];
      y[i] = job->y[i] + (tensor->form ? row : wide_row(job, row) * job->dims[last] + from) * tensor->size;
    }
    if (kernel->halves) call_on_halves(kernel, x, between, along, y, many, count);
    else kernel->rows[level](x, between, along, y, many, count, 0, job->outer_strides, job->outers, job->step);
    row += many;
  }
}
static void run_columns(const Job* job, int64_t part) {
  const Kernel* kernel = job->kernel;
  int axis = job->rank - 2;
  const char* x[MOST_INPUTS];
  char* y[MOST_OUTPUTS];
  int64_t along[MOST_INPUTS], inner = job->dims[axis + 1], n = job->dims[axis], outer = part / job->parts, from = part % job->parts * LANES;
  int64_t rest = outer, count = inner - from < LANES ? inner - from : LANES;
  for (size_t i = 0; i < kernel->inputs; ++i) {
    along[i] = job->strides[i][axis];
    x[i] = job->x[i] + from * job->strides[i][axis + 1] * kernel->tensors[i].size;
  }
  for (int d = axis - 1; d >= 0; --d) {
    int64_t at = rest % job->dims[d];
    rest /= job->dims[d];
    for (size_t i = 0; i < kernel->inputs; ++i) x[i] += at * job->strides[i][d] * kernel->tensors[i].size;
  }
  for (size_t i = 0; i < kernel->outputs; ++i) {
    const Tensor* tensor = &kernel->tensors[kernel->inputs + i];
    y[i] = job->y[i] + ((tensor->form ? outer : wide_row(job, outer) * n) * inner + from) * tensor->size;
  }
  kernel->rows[level](x, 0, along, y, count, n, inner, job->outer_strides, job->outers, job->step);
}
static void run_part(void* data, size_t part) {
  const Job* job = data;
  if (job->kernel->columns) {
    run_columns(job, (int64_t)part);
    return;
  }
  int64_t n = job->dims[job->rank - 1], number = (int64_t)part;
  if (job->parts > 1) {
    int64_t row = number / job->parts, from = number % job->parts * BLOCK;
    run_rows(job, row, row + 1, from, n - from < BLOCK ? n - from : BLOCK);
  } else {
    int64_t row = number * job->rows_each, end = row + job->rows_each;
    run_rows(job, row, end < job->rows ? end : job->rows, 0, n);
  }
}
static void merge(int64_t* shape, size_t rank, size_t first, size_t last) {  /* makes one axis of some */
  int64_t size = 1;
  for (size_t d = first; d < last; ++d) size *= shape[d];
  shape[first] = size;
  for (size_t d = last; d < rank; ++d) shape[first + 1 + d - last] = shape[d];
}
static Status* compute(void* data, Context* context) {
  Job job;
  const Kernel* kernel = job.kernel = data;
  size_t inputs = kernel->inputs, rank = kernel->rank, ranks[MOST_INPUTS];
  int64_t shapes[MOST_INPUTS][MOST_DIMENSIONS], out[MOST_DIMENSIONS];
  for (size_t i = 0; i < inputs; ++i) {
    const Value* value = 0;
    Info* info = 0;
    void* memory = 0;
    TRY(CALL(90, const Context*, size_t, const Value**)(context, i, &value));
    TRY(CALL(51, const Value*, void**)(value, &memory));
    TRY(CALL(65, const Value*, Info**)(value, &info));
    Status* status = CALL(61, const Info*, size_t*)(info, &ranks[i]);
    if (!status && ranks[i] > rank) status = FAIL("a Passat kernel got a tensor of too many dimensions");
    if (!status) status = CALL(62, const Info*, int64_t*, size_t)(info, shapes[i], ranks[i]);
    ((void (*)(Info*))api[99])(info);
    TRY(status);
    job.x[i] = memory;
  }
  for (size_t i = 0; i < inputs; ++i) {  /* all shapes get the same rank */
    for (size_t d = rank; d-- > 0;) shapes[i][d] = d + ranks[i] < rank ? 1 : shapes[i][d + ranks[i] - rank];
  }
  int64_t rows = 1;
  for (size_t d = 0; d < rank; ++d) {
    out[d] = 1;
    for (size_t i = 0; i < inputs; ++i) {
      int64_t size = shapes[i][d];
      if (size == 1 || size == out[d]) continue;
      if (out[d] != 1) return FAIL("a Passat kernel got tensors whose shapes do not broadcast");
      out[d] = size;
    }
  }
  for (size_t i = 0; i < kernel->outputs; ++i) {
    Value* output = 0;
    void* memory = 0;
    int form = kernel->tensors[inputs + i].form;
    int64_t shape[MOST_DIMENSIONS];
    size_t axes = 0;
    for (size_t d = 0; d < rank; ++d) {
      int within = form && ((d >= kernel->first && d < kernel->last) || (d >= kernel->outer && d < kernel->end));
      if (!within || form == 1) shape[axes++] = within ? 1 : out[d];
    }
    TRY(CALL(91, Context*, size_t, const int64_t*, size_t, Value**)(context, i, shape, axes, &output));
    TRY(CALL(51, const Value*, void**)(output, &memory));
    job.y[i] = memory;
  }
  size_t first = kernel->first;
  if (kernel->reduces) {
    size_t before = rank;
    if (kernel->columns) {
      for (size_t i = 0; i < inputs; ++i) merge(shapes[i], rank, kernel->last, rank);
      merge(out, rank, kernel->last, rank);
      before = kernel->last + 1;
    }
    for (size_t i = 0; i < inputs; ++i) merge(shapes[i], before, kernel->first, kernel->last);
    merge(out, before, kernel->first, kernel->last);
    rank = before - kernel->last + kernel->first + 1;
    if (kernel->end) {
      for (size_t i = 0; i < inputs; ++i) merge(shapes[i], rank, kernel->outer, kernel->end);
      merge(out, rank, kernel->outer, kernel->end);
      rank -= kernel->end - kernel->outer - 1;
      first -= kernel->end - kernel->outer - 1;
    }
    for (size_t i = 0; i < inputs; ++i) {
      for (size_t d = 0; d < rank; ++d) {
        if (d < first && !(kernel->end && d == kernel->outer)) continue;
        if (shapes[i][d] != 1 && shapes[i][d] != out[d]) return FAIL("a Passat kernel got tensors whose shapes do not broadcast");
      }
    }
  }
  for (size_t d = 0; d < rank; ++d) {
    if (!(kernel->reduces && d == first) && !(kernel->end && d == kernel->outer)) rows *= out[d];
  }
  int64_t n = rank ? out[rank - 1] : 1;
  if (!rows) return 0;
  int64_t strides[MOST_INPUTS][MOST_DIMENSIONS];
  for (size_t i = 0; i < inputs; ++i) {
    int64_t stride = 1;
    for (size_t d = rank; d-- > 0;) {
      int64_t size = shapes[i][d];
      strides[i][d] = size == 1 ? 0 : stride;
      stride *= size;
    }
  }
  job.rank = 0;  /* axes along which all inputs are contiguous are joined; a row that is reduced stays */
  for (size_t d = 0; d < rank; ++d) {
    int whole = kernel->reduces && d >= first;
    if ((out[d] == 1 && !whole) || (kernel->end && d == kernel->outer)) continue;
    int last = job.rank - 1, joined = last >= 0 && !whole;
    for (size_t i = 0; i < inputs && joined; ++i) joined = job.strides[i][last] == strides[i][d] * out[d];
    if (!joined) job.dims[++last] = 1;
    job.dims[last] *= out[d];
    for (size_t i = 0; i < inputs; ++i) job.strides[i][last] = strides[i][d];
    job.rank = last + 1;
  }
  if (!job.rank) {
    job.rank = 1;
    job.dims[0] = 1;
    for (size_t i = 0; i < inputs; ++i) job.strides[i][0] = 0;
  }
  int64_t count = job.dims[job.rank - 1];
  job.outers = job.between = 1;
  job.step = kernel->columns ? count * job.dims[job.rank - 2] : count;
  if (kernel->end) {
    job.outers = out[kernel->outer];
    for (size_t d = kernel->outer + 1; d < first; ++d) job.between *= out[d];
    job.step *= job.between;
    for (size_t i = 0; i < inputs; ++i) job.outer_strides[i] = strides[i][kernel->outer];
  }
  job.rows = kernel->columns ? rows / n : kernel->reduces ? rows : rows / count;
  job.parts = kernel->columns ? (count + LANES - 1) / LANES : kernel->reduces ? 1 : (count + BLOCK - 1) / BLOCK;
  job.rows_each = count < BLOCK ? BLOCK / (count ? count : 1) : 1;
  int64_t tasks = job.parts > 1 || kernel->columns ? job.rows * job.parts : (job.rows + job.rows_each - 1) / job.rows_each;
  if (tasks > 1) return CALL(274, const Context*, void (*)(void*, size_t), size_t, size_t, void*)(context, run_part, tasks, 0, &job);
  run_part(&job, 0);
  return 0;
}
static Status* create(const Op* op, Api unused, const void* info, void** kernel) { *kernel = (void*)op; return 0; }
static void destroy(void* kernel) {}
static const char* name(const Op* op) { return ((const Kernel*)op)->name; }
static const char* provider(const Op* op) { return 0; }
static size_t inputs(const Op* op) { return ((const Kernel*)op)->inputs; }
static size_t outputs(const Op* op) { return ((const Kernel*)op)->outputs; }
static int input_type(const Op* op, size_t i) { return ((const Kernel*)op)->tensors[i].type; }
static int output_type(const Op* op, size_t i) { return ((const Kernel*)op)->tensors[((const Kernel*)op)->inputs + i].type; }
static int zero(const Op* op, size_t i) { return 0; }
static int zero_of(const Op* op) { return 0; }
#define OP {16, 0, name, provider, input_type, inputs, output_type, outputs, 0, destroy, zero, zero, zero, \
            zero_of, zero_of, zero_of, zero_of, create, compute}
"""

# Asks the processor itself: __builtin_cpu_supports knows nothing in libraries made by ziglang.
PROCESSOR: Final = r"""
#if defined(__x86_64__)
#include <cpuid.h>
static int level_of_processor(void) {
  unsigned a = 0, b = 0, c = 0, d = 0, saved = 0, high = 0;
  if (!__get_cpuid(1, &a, &b, &c, &d) || !(c >> 12 & 1) || !(c >> 27 & 1) || !(c >> 29 & 1)) return 0;  /* FMA, XGETBV, F16C */
  __asm__ volatile("xgetbv" : "=a"(saved), "=d"(high) : "c"(0));
  if ((saved & 0x6) != 0x6 || !__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(b >> 5 & 1)) return 0;  /* AVX2 */
  return (saved & 0xe6) == 0xe6 && (b >> 16 & 1) && (b >> 17 & 1) && (b >> 30 & 1) && (b >> 31 & 1) ? 2 : 1;  /* AVX-512 F, DQ, BW, VL */
}
#else
static int level_of_processor(void) { return 0; }
#endif
"""
"""The function for the level of instructions of the processor, a position in LEVELS."""
REGISTER: Final = r"""
__attribute__((visibility("default"))) Status* RegisterCustomOps(Options* options, const ApiBase* base) {
  Api found = base->get_api(17);
  if (!found) {
    api = base->get_api(1);
    return api ? FAIL("this library of Passat kernels needs ONNX Runtime 1.17 or later") : 0;
  }
  api = found;
#if LEVELS > 1
  level = level_of_processor();
#endif
  static Domain* domain;
  if (!domain) {
    Domain* made = 0;
    TRY(CALL(26, const char*, Domain**)(DOMAIN_NAME, &made));
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; ++i) TRY(CALL(27, Domain*, const Op*)(made, &kernels[i].op));
    domain = made;
  }
  return CALL(28, Options*, Domain*)(options, domain);
}
"""
