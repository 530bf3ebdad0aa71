// Sixteen 32-bit lanes on every instruction set: one zmm, two ymm, or four 128-bit vectors of the compiler's own.
//
// Included by the sources that are compiled once per instruction set. Everything has internal linkage: an inline
// function that two of those objects shared would be merged by the linker, and AVX-512 code would then run on a CPU
// without it.
#pragma once
#include <cstdint>
#include <cstring>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define INLINE inline __attribute__((always_inline))

namespace {

INLINE float float_of(uint32_t bits) {
    float value;
    memcpy(&value, &bits, 4);
    return value;
}

INLINE uint32_t bits_of(float value) {
    uint32_t bits;
    memcpy(&bits, &value, 4);
    return bits;
}

// fp32 -> bf16, ties to even; a NaN stays a (quiet) NaN
INLINE uint16_t bf16_of(float value) {
    const uint32_t bits = bits_of(value);
    const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    return static_cast<uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? 0x7fc0u : rounded);
}

INLINE float float_of_bf16(uint16_t half) { return float_of(static_cast<uint32_t>(half) << 16); }

// fp32 -> fp16, ties to even, overflow to infinity, subnormals exact
INLINE uint16_t fp16_of(float value) {
    const uint32_t bits = bits_of(value);
    const uint32_t sign = (bits >> 16) & 0x8000u;
    const uint32_t magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u) return static_cast<uint16_t>(sign | 0x7e00u);
    if (magnitude >= 0x477ff000u) return static_cast<uint16_t>(sign | 0x7c00u);  // 65520 and above round to infinity
    if (magnitude < 0x38800000u) {  // below 2^-14: adding 0.5 aligns the ulp to 2^-24, and the adder rounds
        return static_cast<uint16_t>(sign | (bits_of(float_of(magnitude) + 0.5f) - 0x3f000000u));
    }
    const uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
    return static_cast<uint16_t>(sign | ((rounded - 0x38000000u) >> 13));
}

INLINE float float_of_fp16(uint16_t half) {
    const uint32_t sign = (half & 0x8000u) << 16;
    const uint32_t magnitude = half & 0x7fffu;
    if (magnitude >= 0x7c00u) return float_of(sign | 0x7f800000u | ((magnitude & 0x3ffu) << 13));
    return float_of(sign | bits_of(float_of(magnitude << 13) * 0x1p112f));  // exact, also for subnormals
}

#if defined(__AVX512F__)

struct F16 { __m512 v; };
struct U16 { __m512i v; };
struct Table { __m512 v; };

INLINE F16 zero() { return {_mm512_setzero_ps()}; }
INLINE F16 load(const float* p) { return {_mm512_loadu_ps(p)}; }
INLINE void store(float* p, F16 a) { _mm512_storeu_ps(p, a.v); }
INLINE F16 splat(float a) { return {_mm512_set1_ps(a)}; }
INLINE F16 add(F16 a, F16 b) { return {_mm512_add_ps(a.v, b.v)}; }
INLINE F16 mul(F16 a, F16 b) { return {_mm512_mul_ps(a.v, b.v)}; }
INLINE F16 fma(F16 a, F16 b, F16 c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
INLINE U16 load_words(const uint32_t* p) { return {_mm512_loadu_si512(p)}; }
INLINE Table table_of(const float* code) { return {_mm512_loadu_ps(code)}; }
// vpermps takes the low four bits of each lane: a shift is all that the index needs
template <int J> INLINE F16 lookup(Table t, U16 words) {
    return {_mm512_permutexvar_ps(_mm512_srli_epi32(words.v, 4 * J), t.v)};
}

#elif defined(__AVX2__)

struct F16 { __m256 v[2]; };
struct U16 { __m256i v[2]; };
struct Table { __m256 low, high; };

INLINE F16 zero() { return {{_mm256_setzero_ps(), _mm256_setzero_ps()}}; }
INLINE F16 load(const float* p) { return {{_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}}; }
INLINE void store(float* p, F16 a) { _mm256_storeu_ps(p, a.v[0]), _mm256_storeu_ps(p + 8, a.v[1]); }
INLINE F16 splat(float a) { return {{_mm256_set1_ps(a), _mm256_set1_ps(a)}}; }
INLINE F16 add(F16 a, F16 b) { return {{_mm256_add_ps(a.v[0], b.v[0]), _mm256_add_ps(a.v[1], b.v[1])}}; }
INLINE F16 mul(F16 a, F16 b) { return {{_mm256_mul_ps(a.v[0], b.v[0]), _mm256_mul_ps(a.v[1], b.v[1])}}; }
INLINE F16 fma(F16 a, F16 b, F16 c) {
    return {{_mm256_fmadd_ps(a.v[0], b.v[0], c.v[0]), _mm256_fmadd_ps(a.v[1], b.v[1], c.v[1])}};
}
INLINE U16 load_words(const uint32_t* p) {
    return {{_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)),
             _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p + 8))}};
}
INLINE Table table_of(const float* code) { return {_mm256_loadu_ps(code), _mm256_loadu_ps(code + 8)}; }
// vpermps has eight entries here: look up in both halves of the table and let bit 3 (moved to the sign) choose
template <int J> INLINE __m256 lookup8(Table t, __m256i words) {
    const __m256i index = _mm256_srli_epi32(words, 4 * J);
    const __m256 upper = _mm256_castsi256_ps(_mm256_slli_epi32(words, 28 - 4 * J));
    return _mm256_blendv_ps(_mm256_permutevar8x32_ps(t.low, index), _mm256_permutevar8x32_ps(t.high, index), upper);
}
template <int J> INLINE F16 lookup(Table t, U16 words) {
    return {{lookup8<J>(t, words.v[0]), lookup8<J>(t, words.v[1])}};
}

#else

typedef float F4 __attribute__((vector_size(16)));
struct F16 { F4 v[4]; };
struct U16 { const uint32_t* p; };
struct Table { const float* p; };

INLINE F16 splat(float a) { const F4 s = {a, a, a, a}; return {{s, s, s, s}}; }
INLINE F16 zero() { return splat(0.0f); }
INLINE F16 load(const float* p) { F16 a; memcpy(&a, p, sizeof a); return a; }
INLINE void store(float* p, F16 a) { memcpy(p, &a, sizeof a); }
INLINE F16 add(F16 a, F16 b) { return {{a.v[0] + b.v[0], a.v[1] + b.v[1], a.v[2] + b.v[2], a.v[3] + b.v[3]}}; }
INLINE F16 mul(F16 a, F16 b) { return {{a.v[0] * b.v[0], a.v[1] * b.v[1], a.v[2] * b.v[2], a.v[3] * b.v[3]}}; }
INLINE F16 fma(F16 a, F16 b, F16 c) { return add(mul(a, b), c); }  // contracted where the target has the instruction
INLINE U16 load_words(const uint32_t* p) { return {p}; }
INLINE Table table_of(const float* code) { return {code}; }
template <int J> INLINE F16 lookup(Table t, U16 words) {
    float lane[16];
    for (int i = 0; i < 16; ++i) lane[i] = t.p[(words.p[i] >> (4 * J)) & 15u];
    return load(lane);
}

#endif

// Sixteen consecutive values of a bf16, fp16 or fp32 array as fp32
INLINE F16 load_bf16(const uint16_t* p) {
#if defined(__AVX512F__)
    const __m256i half = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
    return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16))};
#else
    float lane[16];
    for (int i = 0; i < 16; ++i) lane[i] = float_of_bf16(p[i]);
    return load(lane);
#endif
}

INLINE F16 load_fp16(const uint16_t* p) {
#if defined(__AVX512F__)
    return {_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))};
#elif defined(__F16C__)
    const __m128i* half = reinterpret_cast<const __m128i*>(p);
    return {{_mm256_cvtph_ps(_mm_loadu_si128(half)), _mm256_cvtph_ps(_mm_loadu_si128(half + 1))}};
#else
    float lane[16];
    for (int i = 0; i < 16; ++i) lane[i] = float_of_fp16(p[i]);
    return load(lane);
#endif
}

INLINE void store_bf16(uint16_t* p, F16 a) {
#if defined(__AVX512F__)
    // not vcvtneps2bf16: it flushes subnormals
    const __m512i bits = _mm512_castps_si512(a.v);
    const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    const __m512i nudge = _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff));
    const __m512i rounded = _mm512_srli_epi32(_mm512_add_epi32(bits, nudge), 16);
    const __mmask16 nan = _mm512_cmp_ps_mask(a.v, a.v, _CMP_UNORD_Q);
    const __m512i value = _mm512_mask_mov_epi32(rounded, nan, _mm512_set1_epi32(0x7fc0));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtepi32_epi16(value));
#else
    float lane[16];
    store(lane, a);
    for (int i = 0; i < 16; ++i) p[i] = bf16_of(lane[i]);
#endif
}

INLINE void store_fp16(uint16_t* p, F16 a) {
#if defined(__AVX512F__)
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtps_ph(a.v, _MM_FROUND_TO_NEAREST_INT));
#elif defined(__F16C__)
    __m128i* half = reinterpret_cast<__m128i*>(p);
    _mm_storeu_si128(half, _mm256_cvtps_ph(a.v[0], _MM_FROUND_TO_NEAREST_INT));
    _mm_storeu_si128(half + 1, _mm256_cvtps_ph(a.v[1], _MM_FROUND_TO_NEAREST_INT));
#else
    float lane[16];
    store(lane, a);
    for (int i = 0; i < 16; ++i) p[i] = fp16_of(lane[i]);
#endif
}

}  // namespace
