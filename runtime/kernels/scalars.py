"""The scalar functions of loops in C, for each type: `k_NAME_TYPE`.

The values are those of ONNX Runtime; exp, log, tanh, sigmoid, erf, sin, cos and pow are of our own, by polynomials fitted to the function
(Chebyshev), so that loops with them are vectorized; pow of float64, and sin and cos of float64 from 2^20, are the C library's. All keep
NaN. `FMA` and `FMAF` may round once or twice.
"""

from typing import Final

SCALARS: Final = r"""
#define FN static inline __attribute__((always_inline))
FN float k_float(uint32_t bits) { union { uint32_t u; float f; } v; v.u = bits; return v.f; }
FN uint32_t k_bits(float x) { union { uint32_t u; float f; } v; v.f = x; return v.u; }
FN double k_double(uint64_t bits) { union { uint64_t u; double f; } v; v.u = bits; return v.f; }
FN uint64_t k_bits64(double x) { union { uint64_t u; double f; } v; v.f = x; return v.u; }

#define NUMBERS(T, N) \
  FN T k_fmod_##N(T x, T y) { return (T)(x % y); } \
  FN T k_mod_##N(T x, T y) { T r = (T)(x % y); return r && (r < 0) != (y < 0) ? (T)(r + y) : r; } \
  FN T k_floordiv_##N(T x, T y) { T q = (T)(x / y); return x % y && (x < 0) != (y < 0) ? (T)(q - 1) : q; } \
  FN T k_abs_##N(T x) { return x < 0 ? (T)-x : x; } \
  FN T k_neg_##N(T x) { return (T)-x; } \
  FN T k_relu_##N(T x) { return x < 0 ? 0 : x; } \
  FN T k_sign_##N(T x) { return (T)((x > 0) - (x < 0)); } \
  FN T k_max_##N(T x, T y) { return x > y ? x : y; } \
  FN T k_min_##N(T x, T y) { return x < y ? x : y; } \
  FN T k_clip_low_##N(T x, T low) { return x < low ? low : x; } \
  FN T k_clip_high_##N(T x, T high) { return x > high ? high : x; }
NUMBERS(int8_t, int8) NUMBERS(int16_t, int16) NUMBERS(int32_t, int32) NUMBERS(int64_t, int64)

#define UNSIGNED(T, N) \
  FN T k_fmod_##N(T x, T y) { return x % y; } \
  FN T k_mod_##N(T x, T y) { return x % y; } \
  FN T k_floordiv_##N(T x, T y) { return x / y; } \
  FN T k_max_##N(T x, T y) { return x > y ? x : y; } \
  FN T k_min_##N(T x, T y) { return x < y ? x : y; } \
  FN T k_clip_low_##N(T x, T low) { return x < low ? low : x; } \
  FN T k_clip_high_##N(T x, T high) { return x > high ? high : x; } \
  FN T k_sign_##N(T x) { return x > 0; }
UNSIGNED(uint8_t, uint8) UNSIGNED(uint16_t, uint16) UNSIGNED(uint32_t, uint32) UNSIGNED(uint64_t, uint64)

#define FLOATS(T, N, B, LARGEST) \
  FN T k_abs_##N(T x) { return __builtin_fabs##B(x); } \
  FN T k_neg_##N(T x) { return -x; } \
  FN T k_sqrt_##N(T x) { return __builtin_sqrt##B(x); } \
  FN T k_floor_##N(T x) { return __builtin_floor##B(x); } \
  FN T k_ceil_##N(T x) { return __builtin_ceil##B(x); } \
  FN T k_round_##N(T x) { return __builtin_rint##B(x); } \
  FN T k_relu_##N(T x) { return x < 0 ? 0 : x; } \
  FN T k_leaky_##N(T x, T a) { return x >= 0 ? x : a * x; } \
  FN T k_sign_##N(T x) { return x > 0 ? 1 : x < 0 ? -1 : x == 0 ? 0 : x; } \
  FN T k_clip_low_##N(T x, T low) { return x < low ? low : x; } \
  FN T k_clip_high_##N(T x, T high) { return x > high ? high : x; } \
  FN T k_max_##N(T x, T y) { T z = x > y ? x : y; return x == x ? z : x; } \
  FN T k_min_##N(T x, T y) { T z = x < y ? x : y; return x == x ? z : x; } \
  FN T k_fmod_##N(T x, T y) { return __builtin_fmod##B(x, y); } \
  FN T k_floordiv_##N(T x, T y) { return __builtin_floor##B(x / y); } \
  FN T k_mod_##N(T x, T y) { return x - __builtin_floor##B(x / y) * y; } \
  FN uint8_t k_isnan_##N(T x) { return x != x; } \
  FN uint8_t k_isinf_##N(T x) { return __builtin_fabs##B(x) > LARGEST; }
FLOATS(float, float32, f, 0x1.fffffep+127f) FLOATS(double, float64, , 0x1.fffffffffffffp+1023)

#define INTEGER(N, T, LEAST, F, G, END) FN T k_to_##N##_##G(F x) { return x >= -END && x < END ? (T)x : LEAST; }
INTEGER(int32, int32_t, INT32_MIN, float, float32, 0x1p+31f) INTEGER(int32, int32_t, INT32_MIN, double, float64, 0x1p+31)
INTEGER(int64, int64_t, INT64_MIN, float, float32, 0x1p+63f) INTEGER(int64, int64_t, INT64_MIN, double, float64, 0x1p+63)

#define NATURAL(F, G, END) FN uint64_t k_to_uint64_##G(F x) { return x >= END ? UINT64_MAX : x > 0 ? (uint64_t)x : 0; }
NATURAL(float, float32, 0x1p+64f) NATURAL(double, float64, 0x1p+64)

/* float16: through integers, so that no instruction of the processor is needed */
FN float k_half(uint16_t h) {
  uint32_t bits = (uint32_t)(h & 0x7fff) << 13;
  float finite = k_float(bits) * 0x1p+112f;
  uint32_t wide = bits >= 0x7c00u << 13 ? bits | 0x7f800000u : k_bits(finite);
  return k_float(wide | ((uint32_t)(h & 0x8000) << 16));
}
FN uint16_t k_to_half(float x) {
  uint32_t bits = k_bits(x), magnitude = bits & 0x7fffffffu;
  uint32_t small = k_bits(k_float(magnitude) + 0.5f) - 0x3f000000u;
  uint32_t normal = (magnitude + 0xc8000fffu + ((magnitude >> 13) & 1u)) >> 13;
  uint32_t large = magnitude > 0x7f800000u ? 0x7e00u : 0x7c00u;
  uint32_t half = magnitude < 0x38800000u ? small : magnitude >= 0x477ff000u ? large : normal;
  return (uint16_t)(half | ((bits >> 16) & 0x8000u));
}

FN float k_half_float32(float x) { return k_half(k_to_half(x)); }

FN int32_t k_order_float32(float x) { int32_t b = (int32_t)k_bits(x); return x != x ? INT32_MAX : b ^ ((b >> 31) & INT32_MAX); }
FN float k_of_order_int32(int32_t b) { return k_float((uint32_t)(b ^ ((b >> 31) & INT32_MAX))); }
FN int64_t k_order_float64(double x) { int64_t b = (int64_t)k_bits64(x); return x != x ? INT64_MAX : b ^ ((b >> 63) & INT64_MAX); }
FN double k_of_order_int64(int64_t b) { return k_double((uint64_t)(b ^ ((b >> 63) & INT64_MAX))); }

FN float k_exp_part(float t, float x) {  /* exp(x - k ln 2), where t is k plus 1.5 * 2^23 */
  float k = t - 0x1.8p+23f;
  float r = FMAF(k, 0x1.bd0106p-13f, FMAF(k, -0x1.63p-1f, x));
  float p = FMAF(r, 0x1.6d113cp-10f, 0x1.120ba2p-7f);
  p = FMAF(p, r, 0x1.55551ap-5f);
  p = FMAF(p, r, 0x1.5554dcp-3f);
  p = FMAF(p, r, 0.5f);
  return FMAF(p, r * r, r) + 1.0f;
}
FN float k_exp_within(float x) {  /* for results that are normal */
  float t = FMAF(x, 0x1.715476p+0f, 0x1.8p+23f);
  return k_exp_part(t, x) * k_float((k_bits(t) << 23) + 0x3f800000u);
}
FN float k_exp_float32(float x) {
  x = 89.0f < x ? 89.0f : x;
  x = -104.0f > x ? -104.0f : x;
  float t = FMAF(x, 0x1.715476p+0f, 0x1.8p+23f);
  int32_t e = (int32_t)(k_bits(t) - 0x4b400000u), half = e >> 1;
  return k_exp_part(t, x) * k_float((uint32_t)(half + 127) << 23) * k_float((uint32_t)(e - half + 127) << 23);
}
FN float k_sigmoid_float32(float x) {
  float y = -87.33655f > x ? -87.33655f : x;
  y = 87.33655f < y ? 87.33655f : y;
  float s = 1.0f / (1.0f + k_exp_within(-y));
  return x < -87.33655f ? 0.0f : s;
}
FN float k_tanh_float32(float x) {
  float a = __builtin_fabsf(x);
  a = 10.0f < a ? 10.0f : a;
  float z = a * a;
  float p = FMAF(z, -0x1.8f8de4p-8f, 0x1.58048ep-6f);
  p = FMAF(p, z, -0x1.b9258ap-5f);
  p = FMAF(p, z, 0x1.110e1cp-3f);
  p = FMAF(p, z, -0x1.555552p-2f);
  float small = FMAF(p * z, a, a);
  float large = 1.0f - 2.0f / (k_exp_within(a + a) + 1.0f);
  return __builtin_copysignf(a < 0.625f ? small : large, x);
}
FN float k_erf_float32(float x) {
  float a = __builtin_fabsf(x), z = a * a;
  float p = FMAF(z, -0x1.445f48p-17f, 0x1.d88750p-14f);
  p = FMAF(p, z, -0x1.bccf66p-11f);
  p = FMAF(p, z, 0x1.562a60p-8f);
  p = FMAF(p, z, -0x1.b829c8p-6f);
  p = FMAF(p, z, 0x1.ce2f08p-4f);
  p = FMAF(p, z, -0x1.812746p-2f);
  p = FMAF(p, z, 0x1.06eba8p-3f);
  float small = FMAF(p, a, a);
  float t = 4.0f < a ? 4.0f : a;
  float q = FMAF(t, 0x1.b77830p-20f, -0x1.825ce4p-15f);
  q = FMAF(q, t, 0x1.38e5e6p-11f);
  q = FMAF(q, t, -0x1.37ecc6p-8f);
  q = FMAF(q, t, 0x1.b0e246p-6f);
  q = FMAF(q, t, -0x1.c2e356p-4f);
  q = FMAF(q, t, -0x1.437eb4p-1f);
  q = FMAF(q, t, -0x1.2156fap+0f);
  q = FMAF(q, t, 0x1.4fb068p-12f);
  float large = 1.0f - k_exp_within(q);
  return __builtin_copysignf(a < 1.0f ? small : large, x);
}
FN float k_log_float32(float x) {
  float y = x < 0x1p-126f ? x * 0x1p+23f : x;
  uint32_t bits = k_bits(y) - 0x3f3504f3u;  /* the mantissa is between sqrt(1/2) and sqrt(2) */
  float e = (float)((int32_t)bits >> 23) - (x < 0x1p-126f ? 23.0f : 0.0f);
  float f = k_float((bits & 0x7fffffu) + 0x3f3504f3u) - 1.0f;
  float p = FMAF(f, 0x1.15425cp-4f, -0x1.d962f2p-4f);
  p = FMAF(p, f, 0x1.e3d33ap-4f);
  p = FMAF(p, f, -0x1.fcc1aep-4f);
  p = FMAF(p, f, 0x1.237a56p-3f);
  p = FMAF(p, f, -0x1.5559e6p-3f);
  p = FMAF(p, f, 0x1.99a130p-3f);
  p = FMAF(p, f, -0x1.000008p-2f);
  p = FMAF(p, f, 0x1.55554ep-2f);
  p = FMAF(p, f, -0.5f);
  float r = FMAF(p, f * f, e * -0x1.bd0106p-13f);
  r = FMAF(e, 0x1.63p-1f, r + f);
  r = x > 0 ? r : x == 0 ? -__builtin_inff() : __builtin_nanf("");
  return x <= 0x1.fffffep+127f ? r : x;
}

FN double k_exp_float64(double x) {
  x = 710.0 < x ? 710.0 : x;
  x = -746.0 > x ? -746.0 : x;
  double t = FMA(x, 0x1.71547652b82fep+0, 0x1.8p+52);
  double k = t - 0x1.8p+52;
  double r = FMA(k, -0x1.a39ef35793c76p-33, FMA(k, -0x1.62e42feep-1, x));
  double p = FMA(r, 0x1.1f731ea5352cap-29, 0x1.af4e196027428p-26);
  p = FMA(p, r, 0x1.27e4db57442fbp-22);
  p = FMA(p, r, 0x1.71de021a90822p-19);
  p = FMA(p, r, 0x1.a01a01a6dcaffp-16);
  p = FMA(p, r, 0x1.a01a01abef415p-13);
  p = FMA(p, r, 0x1.6c16c16c162ccp-10);
  p = FMA(p, r, 0x1.11111111100cep-7);
  p = FMA(p, r, 0x1.5555555555556p-5);
  p = FMA(p, r, 0x1.5555555555557p-3);
  p = FMA(p, r, 0.5);
  p = FMA(p, r * r, r) + 1.0;
  int32_t e = (int32_t)k_bits64(t), half = e >> 1;
  return p * k_double((uint64_t)(half + 1023) << 52) * k_double((uint64_t)(e - half + 1023) << 52);
}
FN double k_sigmoid_float64(double x) { return 1.0 / (1.0 + k_exp_float64(-x)); }
FN double k_tanh_float64(double x) {
  double a = __builtin_fabs(x);
  a = 20.0 < a ? 20.0 : a;
  double z = a * a;
  double p = FMA(z, 0x1.b33642a122cddp-18, -0x1.05bbdae896297p-15);
  p = FMA(p, z, 0x1.8445870f6fe41p-14);
  p = FMA(p, z, -0x1.f243823c8c981p-13);
  p = FMA(p, z, 0x1.3526e9ed54da1p-11);
  p = FMA(p, z, -0x1.7d9f6f23e8682p-10);
  p = FMA(p, z, 0x1.d6d39ae3905e2p-9);
  p = FMA(p, z, -0x1.226e3473dce5cp-7);
  p = FMA(p, z, 0x1.664f487e0a749p-6);
  p = FMA(p, z, -0x1.ba1ba1ba0f126p-5);
  p = FMA(p, z, 0x1.11111111110a8p-3);
  p = FMA(p, z, -0x1.5555555555555p-2);
  double small = FMA(p * z, a, a);
  double large = 1.0 - 2.0 / (k_exp_float64(a + a) + 1.0);
  return __builtin_copysign(a < 0.625 ? small : large, x);
}
FN double k_log_float64(double x) {
  double y = x < 0x1p-1022 ? x * 0x1p+52 : x;
  uint64_t bits = k_bits64(y) - 0x3fe6a09e667f3bcdu;
  double e = (double)((int32_t)(bits >> 32) >> 20) - (x < 0x1p-1022 ? 52.0 : 0.0);
  double f = k_double((bits & 0xfffffffffffffu) + 0x3fe6a09e667f3bcdu) - 1.0;
  double s = f / (2.0 + f), z = s * s, h = 0.5 * f * f;
  double p = FMA(z, 0x1.0c039c49989c6p-3, 0x1.0fbe95d716020p-3);
  p = FMA(p, z, 0x1.3b1c355a8f7a2p-3);
  p = FMA(p, z, 0x1.745cf9048dd95p-3);
  p = FMA(p, z, 0x1.c71c720159177p-3);
  p = FMA(p, z, 0x1.2492492476cccp-2);
  p = FMA(p, z, 0x1.9999999999a38p-2);
  p = FMA(p, z, 0x1.5555555555555p-1);
  double r = f - (h - FMA(s, FMA(p, z, h), e * 0x1.a39ef35793c76p-33));
  r = FMA(e, 0x1.62e42feep-1, r);
  r = x > 0 ? r : x == 0 ? -__builtin_inf() : __builtin_nan("");
  return x <= 0x1.fffffffffffffp+1023 ? r : x;
}

FN float k_pow_float32(float x, float y) {
  double r = k_exp_float64((double)y * k_log_float64(__builtin_fabsf(x)));
  float h = y * 0.5f;
  int whole = __builtin_rintf(y) == y, odd = whole && __builtin_rintf(h) != h;
  float z = odd && k_bits(x) >> 31 ? -(float)r : (float)r;
  z = x < 0 && !whole && x >= -0x1.fffffep+127f ? __builtin_nanf("") : z;
  return (y == 0) | (x == 1) | ((x == -1) & (h == y)) ? 1.0f : z;
}
FN double k_pow_float64(double x, double y) {  /* gcc makes a root of the power of a half, also of -0 and -infinity */
  return y == 0.5 ? x < -0x1.fffffffffffffp+1023 ? -x : __builtin_sqrt(x) + 0.0 : __builtin_pow(x, y);
}
static const uint32_t k_two_over_pi[] = {  /* 32 bits of it each, from 5 before the point, advancing by 8 */
  0x0517cc1b, 0x17cc1b72, 0xcc1b7272, 0x1b727220, 0x727220a9, 0x7220a94f, 0x20a94fe1, 0xa94fe13a, 0x4fe13abe, 0xe13abe8f, 0x3abe8fa9,
  0xbe8fa9a6, 0x8fa9a6ee, 0xa9a6ee06, 0xa6ee06db, 0xee06db14, 0x06db14ac, 0xdb14acc9, 0x14acc9e2, 0xacc9e21c, 0xc9e21c82, 0xe21c820f,
};
FN double k_remainder(float x, uint32_t* quarter) {  /* of |x| by pi / 2, exact for any number of at least 2^20 */
  uint32_t bits = k_bits(x) & 0x7fffffffu;
  int32_t e = (int32_t)(bits >> 23) - 147;
  e = e < 0 ? 0 : e;
  uint32_t m = ((bits & 0x7fffffu) | 0x800000u) << (e & 7);  /* |x| is m / 8 * 256^(e / 8) */
  e >>= 3;
  uint64_t last = (uint64_t)m * k_two_over_pi[e + 8] >> 32;
  uint64_t y = ((uint64_t)(m * k_two_over_pi[e]) << 32) + (uint64_t)m * k_two_over_pi[e + 4] + last;
  *quarter = (uint32_t)((y + ((uint64_t)1 << 61)) >> 62);
  y -= (uint64_t)*quarter << 62;
  return ((double)(int32_t)(y >> 32) * 0x1p+32 + (double)(int32_t)((uint32_t)y >> 1) * 2.0) * 0x1.921fb54442d18p-62;
}
FN float k_wave(float x, uint32_t turn, int near) {  /* sin(|x| + turn * pi / 2) */
  double a = __builtin_fabsf(x), t = a * 0x1.45f306dc9c883p-1 + 0x1.8p+52, k = t - 0x1.8p+52;
  double rest = (a - k * 0x1.921fb544p+0) - k * 0x1.0b4611a626331p-34;
  uint32_t q = (uint32_t)k_bits64(t);
  if (!near) {
    uint32_t quarter;
    double far = k_remainder(x, &quarter);
    rest = a < 0x1p+20 ? rest : far;
    q = a < 0x1p+20 ? q : quarter;
  }
  q += turn;
  float r = (float)rest, z = r * r;
  float s = FMAF(FMAF(FMAF(FMAF(z, 0x1.6db3aap-19f, -0x1.a01388p-13f), z, 0x1.11110ep-7f), z, -0x1.555556p-3f), z * r, r);
  float c = FMAF(FMAF(FMAF(z, 0x1.9bcdfcp-16f, -0x1.6c12c0p-10f), z, 0x1.555554p-5f), z * z, FMAF(z, -0.5f, 1.0f));
  float w = q & 1 ? c : s;
  w = q & 2 ? -w : w;
  return a <= 0x1.fffffep+127f ? w : __builtin_nanf("");
}
FN double k_wave64(double x, uint32_t turn) {  /* below 2^20 */
  double a = __builtin_fabs(x), t = a * 0x1.45f306dc9c883p-1 + 0x1.8p+52, k = t - 0x1.8p+52;
  double r = ((a - k * 0x1.921fb544p+0) - k * 0x1.0b4611a6p-34) - k * 0x1.3198a2e037073p-69, z = r * r;
  double s = FMA(z, 0x1.5e0726e8bdcb6p-33, -0x1.ae600004fbef2p-26);
  s = FMA(s, z, 0x1.71de378bf7322p-19);
  s = FMA(s, z, -0x1.a01a019e7b7e5p-13);
  s = FMA(s, z, 0x1.1111111110b90p-7);
  s = FMA(s, z, -0x1.5555555555555p-3);
  s = FMA(s, z * r, r);
  double c = FMA(z, -0x1.9079af623757cp-37, 0x1.1eeb63690b412p-29);
  c = FMA(c, z, -0x1.27e4fa128f57dp-22);
  c = FMA(c, z, 0x1.a01a019f4a98cp-16);
  c = FMA(c, z, -0x1.6c16c16c16956p-10);
  c = FMA(c, z, 0x1.5555555555555p-5);
  c = FMA(c, z * z, FMA(z, -0.5, 1.0));
  uint32_t q = (uint32_t)k_bits64(t) + turn;
  double w = q & 1 ? c : s;
  w = q & 2 ? -w : w;
  return a <= 0x1.fffffffffffffp+1023 ? w : __builtin_nan("");
}
FN float k_signed(float w, float x) { return k_float(k_bits(w) ^ (k_bits(x) & 0x80000000u)); }
FN double k_signed64(double w, double x) { return k_double(k_bits64(w) ^ (k_bits64(x) & (uint64_t)1 << 63)); }
FN int32_t k_is_far(float x) { float a = __builtin_fabsf(x); return (a >= 0x1p+20f) & (a <= 0x1.fffffep+127f); }
FN int32_t k_is_far64(double x) { double a = __builtin_fabs(x); return (a >= 0x1p+20) & (a <= 0x1.fffffffffffffp+1023); }
FN float k_sin_float32(float x) { return k_signed(k_wave(x, 0, 0), x); }
FN float k_cos_float32(float x) { return k_wave(x, 1, 0); }
FN double k_sin_float64(double x) { return __builtin_sin(x); }
FN double k_cos_float64(double x) { return __builtin_cos(x); }
FN float k_near_sin_float32(int32_t* far, float x) { *far |= k_is_far(x); return k_signed(k_wave(x, 0, 1), x); }
FN float k_near_cos_float32(int32_t* far, float x) { *far |= k_is_far(x); return k_wave(x, 1, 1); }
FN double k_near_sin_float64(int32_t* far, double x) { *far |= k_is_far64(x); return k_signed64(k_wave64(x, 0), x); }
FN double k_near_cos_float64(int32_t* far, double x) { *far |= k_is_far64(x); return k_wave64(x, 1); }
"""
