"""The C source of a library of custom operators: scalar functions, kernels, and the interface that ONNX Runtime calls.

Declares only the parts of ONNX Runtime's C API that it needs: a table of functions whose order is frozen, and one struct.
"""

from collections.abc import Sequence
from typing import Final

from passat.ir.tir import LoopFunc, Var
from passat.runtime.kernels.emit_c import emit

MOST_INPUTS: Final = 8
"""Maximum number of inputs of a kernel."""
MOST_DIMENSIONS: Final = 16

_MATH: Final = r"""
#include <stddef.h>
#include <stdint.h>
#if defined(__x86_64__) && defined(__linux__) && !defined(__clang__)
#define CLONES __attribute__((target_clones("avx2", "default")))
#else
#define CLONES
#endif
#define FN static inline __attribute__((always_inline)) float
FN k_abs(float x) { return __builtin_fabsf(x); }
FN k_neg(float x) { return -x; }
FN k_sqrt(float x) { return __builtin_sqrtf(x); }
FN k_relu(float x) { return x < 0.0f ? 0.0f : x; }
FN k_leaky(float x, float a) { return x >= 0.0f ? x : a * x; }
FN k_clip_low(float x, float low) { return x < low ? low : x; }
FN k_clip_high(float x, float high) { return x > high ? high : x; }
FN k_float(uint32_t bits) { union { uint32_t u; float f; } v; v.u = bits; return v.f; }
FN k_exp(float x) {
  x = x > 89.0f ? 89.0f : x;
  x = x < -104.0f ? -104.0f : x;
  union { float f; uint32_t u; } n;
  n.f = x * 0x1.715476p+0f + 12582912.0f;
  float k = n.f - 12582912.0f;
  float r = (x - k * 0x1.63p-1f) + k * 0x1.bd0106p-13f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = (p * (r * r) + r) + 1.0f;
  int32_t e = (int32_t)(n.u - 0x4B400000u);
  int32_t half = e >> 1;
  return p * k_float(((uint32_t)half + 127u) << 23) * k_float(((uint32_t)e - (uint32_t)half + 127u) << 23);
}
FN k_sigmoid(float x) { return 1.0f / (1.0f + k_exp(-x)); }
FN k_tanh(float x) {
  float a = __builtin_fabsf(x), z = x * x;
  float p = -5.70498872745e-3f;
  p = p * z + 2.06390887954e-2f;
  p = p * z - 5.37397155531e-2f;
  p = p * z + 1.33314422036e-1f;
  p = p * z - 3.33332819422e-1f;
  float small = p * z * a + a;
  float large = 1.0f - 2.0f / (k_exp(a + a) + 1.0f);
  return __builtin_copysignf(a < 0.625f ? small : large, x);
}
"""

_RUNTIME: Final = r"""
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
typedef void (*Row)(const float* const*, const int64_t*, float*, int64_t);
typedef struct { Op op; const char* name; size_t inputs; Row row; } Kernel;
static Api api;
#define CALL(number, ...) ((Status* (*)(__VA_ARGS__))api[number])
#define FAIL(text) (((Status* (*)(int, const char*))api[0])(1, text))
#define TRY(call) do { Status* failure = (call); if (failure) return failure; } while (0)
#define BLOCK 16384
typedef struct {
  const Kernel* kernel;
  const float* x[MOST_INPUTS];
  float* y;
  int rank;
  int64_t dims[MOST_DIMENSIONS], strides[MOST_INPUTS][MOST_DIMENSIONS], rows, parts, rows_each;
} Job;
static void run_rows(const Job* job, int64_t row, int64_t end, int64_t from, int64_t count) {
  int last = job->rank - 1;
  int64_t along[MOST_INPUTS];
  for (size_t i = 0; i < job->kernel->inputs; ++i) along[i] = job->strides[i][last];
  for (; row < end; ++row) {
    const float* x[MOST_INPUTS];
    for (size_t i = 0; i < job->kernel->inputs; ++i) x[i] = job->x[i] + from * along[i];
    int64_t rest = row;
    for (int d = last - 1; d >= 0; --d) {
      int64_t at = rest % job->dims[d];
      rest /= job->dims[d];
      for (size_t i = 0; i < job->kernel->inputs; ++i) x[i] += at * job->strides[i][d];
    }
    job->kernel->row(x, along, job->y + row * job->dims[last] + from, count);
  }
}
static void run_part(void* data, size_t part) {
  const Job* job = data;
  int64_t n = job->dims[job->rank - 1], number = (int64_t)part;
  if (job->parts > 1) {
    int64_t row = number / job->parts, from = number % job->parts * BLOCK;
    run_rows(job, row, row + 1, from, n - from < BLOCK ? n - from : BLOCK);
  } else {
    int64_t row = number * job->rows_each, end = row + job->rows_each;
    run_rows(job, row, end < job->rows ? end : job->rows, 0, n);
  }
}
static Status* compute(void* data, Context* context) {
  Job job;
  job.kernel = data;
  size_t inputs = job.kernel->inputs, rank = 0, ranks[MOST_INPUTS];
  int64_t shapes[MOST_INPUTS][MOST_DIMENSIONS], out[MOST_DIMENSIONS];
  for (size_t i = 0; i < inputs; ++i) {
    const Value* value = 0;
    Info* info = 0;
    void* memory = 0;
    TRY(CALL(90, const Context*, size_t, const Value**)(context, i, &value));
    TRY(CALL(51, const Value*, void**)(value, &memory));
    TRY(CALL(65, const Value*, Info**)(value, &info));
    Status* status = CALL(61, const Info*, size_t*)(info, &ranks[i]);
    if (!status && ranks[i] > MOST_DIMENSIONS) status = FAIL("a Passat kernel got a tensor with too many dimensions");
    if (!status) status = CALL(62, const Info*, int64_t*, size_t)(info, shapes[i], ranks[i]);
    ((void (*)(Info*))api[99])(info);
    TRY(status);
    job.x[i] = memory;
    if (ranks[i] > rank) rank = ranks[i];
  }
  int64_t total = 1;
  for (size_t d = 0; d < rank; ++d) {
    out[d] = 1;
    for (size_t i = 0; i < inputs; ++i) {
      if (d + ranks[i] < rank) continue;
      int64_t size = shapes[i][d + ranks[i] - rank];
      if (size == 1 || size == out[d]) continue;
      if (out[d] != 1) return FAIL("a Passat kernel got tensors whose shapes do not broadcast");
      out[d] = size;
    }
    total *= out[d];
  }
  Value* output = 0;
  void* memory = 0;
  TRY(CALL(91, Context*, size_t, const int64_t*, size_t, Value**)(context, 0, out, rank, &output));
  TRY(CALL(51, const Value*, void**)(output, &memory));
  if (!total) return 0;
  job.y = memory;
  int64_t strides[MOST_INPUTS][MOST_DIMENSIONS];
  for (size_t i = 0; i < inputs; ++i) {
    int64_t stride = 1;
    for (size_t d = rank; d-- > 0;) {
      int64_t size = d + ranks[i] < rank ? 1 : shapes[i][d + ranks[i] - rank];
      strides[i][d] = size == 1 ? 0 : stride;
      stride *= size;
    }
  }
  job.rank = 0;
  for (size_t d = 0; d < rank; ++d) {
    if (out[d] == 1) continue;
    int last = job.rank - 1, joined = last >= 0;
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
  int64_t n = job.dims[job.rank - 1];
  job.rows = total / n;
  job.parts = (n + BLOCK - 1) / BLOCK;
  job.rows_each = n < BLOCK ? BLOCK / n : 1;
  int64_t tasks = job.parts > 1 ? job.rows * job.parts : (job.rows + job.rows_each - 1) / job.rows_each;
  if (tasks > 1) return CALL(274, const Context*, void (*)(void*, size_t), size_t, size_t, void*)(context, run_part, tasks, 0, &job);
  run_part(&job, 0);
  return 0;
}
static Status* create(const Op* op, Api unused, const void* info, void** kernel) { *kernel = (void*)op; return 0; }
static void destroy(void* kernel) {}
static const char* name(const Op* op) { return ((const Kernel*)op)->name; }
static const char* provider(const Op* op) { return 0; }
static size_t inputs(const Op* op) { return ((const Kernel*)op)->inputs; }
static size_t one_output(const Op* op) { return 1; }
static int float32(const Op* op, size_t i) { return 1; }
static int zero(const Op* op, size_t i) { return 0; }
static int zero_of(const Op* op) { return 0; }
#define OP {16, 0, name, provider, float32, inputs, float32, one_output, 0, destroy, zero, zero, zero, \
            zero_of, zero_of, zero_of, zero_of, create, compute}
"""

_REGISTER: Final = r"""
__attribute__((visibility("default"))) Status* RegisterCustomOps(Options* options, const ApiBase* base) {
  Api found = base->get_api(17);
  if (!found) {
    api = base->get_api(1);
    return api ? FAIL("this library of Passat kernels needs ONNX Runtime 1.17 or later") : 0;
  }
  api = found;
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


def library_source(kernels: Sequence[tuple[str, int, Sequence[tuple[int | None, LoopFunc]]]], domain: str) -> str:
    """The C source of a library for an operator domain. Each kernel has a name, a number of inputs and its functions."""
    parts = [_MATH, f"#define MOST_INPUTS {MOST_INPUTS}\n#define MOST_DIMENSIONS {MOST_DIMENSIONS}", _RUNTIME]
    for name, inputs, functions in kernels:
        parts += [f"CLONES {emit(function)}" for _, function in functions]
        parts.append(_dispatch(name, inputs, functions))
    rows = ",\n".join(f'  {{OP, "{name}", {inputs}, {name}_row}}' for name, inputs, _ in kernels)
    parts += [f"static const Kernel kernels[] = {{\n{rows}\n}};", f'#define DOMAIN_NAME "{domain}"', _REGISTER]
    return "\n".join(parts)


def _dispatch(name: str, inputs: int, functions: Sequence[tuple[int | None, LoopFunc]]) -> str:
    """The C function that selects the variant of a kernel by the strides along the row."""
    mask = " | ".join(f"(int)(s[{number}] != 0) << {number}" for number in range(inputs))
    lines = [f"static void {name}_row(const float* const* x, const int64_t* s, float* y, int64_t n) {{", f"switch ({mask}) {{"]
    for which, function in functions:
        strided = any(isinstance(param, Var) and param.name.startswith("s") for param in function.params)
        args = [f"x[{number}]" for number in range(inputs)] + [f"s[{number}]" for number in range(inputs) if strided] + ["y", "n"]
        lines.append(f"{'default' if which is None else f'case {which}'}: {function.name}({', '.join(args)}); break;")
    return "\n".join([*lines, "}\n}"])
