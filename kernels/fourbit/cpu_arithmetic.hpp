// The two arithmetics of the GEMM, as policies: how a chunk of sixteen rows is decoded and multiplied.
//
// Full is fp32 throughout. Pairs multiplies bf16 pairs into fp32 sums (vdpbf16ps, which flushes subnormals).
#pragma once
#include "cpu_simd.hpp"

namespace {

template <int I> struct Index { static constexpr int value = I; };

// body(Index<0>), ..., body(Index<N-1>): unrolled by construction, so that accumulators stay in registers
template <int N, int I = 0, class Body> INLINE constexpr void unroll(const Body& body) {
    if constexpr (I < N) {
        body(Index<I>{});
        unroll<N, I + 1>(body);
    }
}
#define EACH(i) [&](auto i) __attribute__((always_inline))

constexpr int column_of_nibble(int j) { return j < 4 ? 2 * j : 2 * j - 7; }

struct Full {
    using X = float;
    using W = F16;
    using Codes = Table;
    static constexpr int STEPS = 8, COLUMNS = 1;  // steps of one chunk; columns of W in one step
    static constexpr int position(int step) { return column_of_nibble(step); }
    static INLINE Codes codes(const float* code) { return table_of(code); }
    template <int S> static INLINE W decode(Codes codes, U16 words) { return lookup<S>(codes, words); }
    template <int S> static INLINE W decode_scaled(Table table, U16 words, const F16* scale) {
        return mul(lookup<S>(table, words), scale[position(S)]);
    }
    static INLINE W load_w(const float* p) { return load(p); }
    static INLINE void store_w(float* p, W w) { store(p, w); }
    static INLINE F16 broadcast(const X* x, int64_t i) {
        float value;
        memcpy(&value, reinterpret_cast<const char*>(x) + i * 4, 4);
        return splat(value);
    }
    static INLINE F16 multiply_add(W w, F16 x, F16 sum) { return fma(w, x, sum); }
};

#if defined(__AVX512BF16__)
struct Pairs {
    using X = uint32_t;
    using W = __m512i;
    using Codes = __m512i;
    static constexpr int STEPS = 4, COLUMNS = 2;
    static constexpr int position(int step) { return step; }
    static INLINE Codes codes(const float* code) {  // twice sixteen words: vpermw reads five bits of its index
        const __m256i half = _mm512_cvtepi32_epi16(_mm512_srli_epi32(round(_mm512_loadu_ps(code)), 16));
        return _mm512_broadcast_i64x4(half);
    }
    static INLINE __m512i round(__m512 a) {
        const __m512i bits = _mm512_castps_si512(a);
        const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
        return _mm512_add_epi32(_mm512_add_epi32(bits, odd), _mm512_set1_epi32(0x7fff));
    }
    template <int S> static INLINE W decode(Codes codes, U16 words) {
        return _mm512_permutexvar_epi16(_mm512_srli_epi16(words.v, 4 * S), codes);
    }
    template <int S> static INLINE W decode_scaled(Table table, U16 words, const F16* scale) {
        const __m512 even = mul(lookup<S>(table, words), scale[2 * S]).v;
        const __m512 odd = mul(lookup<S + 4>(table, words), scale[2 * S + 1]).v;
        const __m512i halves = (__m512i)_mm512_cvtne2ps_pbh(odd, even);  // sixteen even columns, then sixteen odd ones
        const __m512i zip = _mm512_set_epi32(
            0x1f000f, 0x1e000e, 0x1d000d, 0x1c000c, 0x1b000b, 0x1a000a, 0x190009, 0x180008,
            0x170007, 0x160006, 0x150005, 0x140004, 0x130003, 0x120002, 0x110001, 0x100000);
        return _mm512_permutexvar_epi16(zip, halves);
    }
    static INLINE W load_w(const float* p) { return _mm512_loadu_si512(p); }
    static INLINE void store_w(float* p, W w) { _mm512_storeu_si512(p, w); }
    static INLINE W broadcast(const X* x, int64_t i) {
        int value;
        memcpy(&value, reinterpret_cast<const char*>(x) + i * 4, 4);
        return _mm512_set1_epi32(value);
    }
    static INLINE F16 multiply_add(W w, W x, F16 sum) { return {_mm512_dpbf16_ps(sum.v, (__m512bh)w, (__m512bh)x)}; }
};
#endif

}  // namespace
