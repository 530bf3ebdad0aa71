// Memory-speed companions of the GEMM, compiled once per instruction set: flat dequantization, and the
// probes that read, fill and copy.
//
// A block of 16 weights or more shares one absmax, so the sixteen products code * absmax are computed and rounded once
// per block and the nibbles only look them up: the result is that of rounding every product, bit for bit.
#include "cpu_api.hpp"
#include "cpu_simd.hpp"

namespace {

using rooflens::Dequantize;

// ---- sixteen scaled and rounded codes of one block ----------------------------------------------------------------

template <class T> INLINE void scaled_codes(const Dequantize& d, F16 code, int64_t block, T* values) {
    if (d.zero) code = add(code, splat(-d.zero[block]));
    const F16 scaled = mul(code, splat(d.absmax[block]));
    if constexpr (sizeof(T) == 4) store(values, scaled);
    else if (d.dtype == rooflens::BF16) store_bf16(values, scaled);
    else store_fp16(values, scaled);
}

// ---- lookup of `count` weights, a multiple of 32 ------------------------------------------------------------------

template <class T> INLINE void look_up_each(const uint8_t* packed, const T* values, T* out, int64_t count) {
    for (int64_t i = 0; i < count; i += 2) {
        const uint8_t byte = packed[i / 2];
        memcpy(out + i, values + (byte >> 4), sizeof(T));
        memcpy(out + i + 1, values + (byte & 15), sizeof(T));
    }
}

#if defined(__AVX512F__)

template <bool STREAMING> INLINE void put(void* out, __m512i value) {
    if constexpr (STREAMING) _mm512_stream_si512(static_cast<__m512i*>(out), value);
    else _mm512_storeu_si512(out, value);
}

// 32-bit lane i of `bytes` holds byte i: put its high nibble into the low word and its low nibble into the high word
template <bool STREAMING>
INLINE void look_up(const uint8_t* packed, const uint16_t* values, uint16_t* out, int64_t count) {
    const __m512i table = _mm512_broadcast_i64x4(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(values)));
    for (int64_t i = 0; i < count; i += 32) {
        const __m512i bytes = _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(packed + i / 2)));
        const __m512i index = _mm512_or_si512(_mm512_srli_epi32(bytes, 4), _mm512_slli_epi32(bytes, 16));
        put<STREAMING>(out + i, _mm512_permutexvar_epi16(index, table));  // bit 4 chooses between two equal halves
    }
}

template <bool STREAMING> INLINE void look_up(const uint8_t* packed, const float* values, float* out, int64_t count) {
    const __m512 table = _mm512_loadu_ps(values);
    for (int64_t i = 0; i < count; i += 16) {
        const __m512i bytes = _mm512_cvtepu8_epi64(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(packed + i / 2)));
        const __m512i index = _mm512_or_si512(_mm512_srli_epi64(bytes, 4), _mm512_slli_epi64(bytes, 32));
        put<STREAMING>(out + i, _mm512_castps_si512(_mm512_permutexvar_ps(index, table)));
    }
}

#elif defined(__AVX2__)

template <bool STREAMING> INLINE void put(void* out, __m128i low, __m128i high) {
    __m128i* to = static_cast<__m128i*>(out);
    if constexpr (STREAMING) _mm_stream_si128(to, low), _mm_stream_si128(to + 1, high);
    else _mm_storeu_si128(to, low), _mm_storeu_si128(to + 1, high);
}

// byte shuffles look up the low and the high bytes of the values apart
template <bool STREAMING>
INLINE void look_up(const uint8_t* packed, const uint16_t* values, uint16_t* out, int64_t count) {
    alignas(16) uint8_t plane[2][16];
    for (int i = 0; i < 16; ++i) plane[0][i] = values[i] & 255, plane[1][i] = values[i] >> 8;
    const __m128i low = _mm_load_si128(reinterpret_cast<__m128i*>(plane[0]));
    const __m128i high = _mm_load_si128(reinterpret_cast<__m128i*>(plane[1]));
    const __m128i mask = _mm_set1_epi8(15);
    for (int64_t i = 0; i < count; i += 32) {
        const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(packed + i / 2));
        const __m128i even = _mm_and_si128(_mm_srli_epi16(bytes, 4), mask), odd = _mm_and_si128(bytes, mask);
        const __m128i index[2] = {_mm_unpacklo_epi8(even, odd), _mm_unpackhi_epi8(even, odd)};
        for (int part = 0; part < 2; ++part) {
            const __m128i a = _mm_shuffle_epi8(low, index[part]), b = _mm_shuffle_epi8(high, index[part]);
            put<STREAMING>(out + i + 16 * part, _mm_unpacklo_epi8(a, b), _mm_unpackhi_epi8(a, b));
        }
    }
}

template <bool STREAMING> INLINE void look_up(const uint8_t* packed, const float* values, float* out, int64_t count) {
    const Table table = table_of(values);
    const __m256i lane_shift = _mm256_set_epi32(0, 4, 0, 4, 0, 4, 0, 4);
    const __m256i spread = _mm256_set_epi8(-1, -1, -1, 3, -1, -1, -1, 3, -1, -1, -1, 2, -1, -1, -1, 2,
                                           -1, -1, -1, 1, -1, -1, -1, 1, -1, -1, -1, 0, -1, -1, -1, 0);
    for (int64_t i = 0; i < count; i += 8) {
        uint32_t four;
        memcpy(&four, packed + i / 2, 4);
        const __m256i bytes = _mm256_shuffle_epi8(_mm256_set1_epi32(static_cast<int>(four)), spread);
        const __m256 value = lookup8<0>(table, _mm256_srlv_epi32(bytes, lane_shift));
        if constexpr (STREAMING) _mm256_stream_ps(out + i, value);
        else _mm256_storeu_ps(out + i, value);
    }
}

#else

template <bool STREAMING, class T> INLINE void look_up(const uint8_t* packed, const T* values, T* out, int64_t count) {
    look_up_each(packed, values, out, count);
}

#endif

template <bool STREAMING, class T> void dequantize_as(const Dequantize& d, int64_t begin, int64_t end) {
    const int64_t group = int64_t{1} << d.group_log2;
    const F16 code = load(d.code);
    T values[16];
    for (int64_t first = begin; first < end; first += group) {
        scaled_codes(d, code, first >> d.group_log2, values);
        const int64_t count = end - first < group ? end - first : group, whole = count / 32 * 32;
        const uint8_t* packed = d.packed + first / 2;
        T* out = static_cast<T*>(d.out) + first;
        look_up<STREAMING>(packed, values, out, whole);
        look_up_each(packed + whole / 2, values, out + whole, (count - whole) / 2 * 2);
        if (count % 2) memcpy(out + count - 1, values + (packed[count / 2] >> 4), sizeof(T));
    }
#if defined(__x86_64__)
    if constexpr (STREAMING) _mm_sfence();
#endif
}

void dequantize(const Dequantize& d, int64_t begin, int64_t end) {
    if (d.dtype == rooflens::FP32) {
        d.streaming ? dequantize_as<true, float>(d, begin, end) : dequantize_as<false, float>(d, begin, end);
    } else {
        d.streaming ? dequantize_as<true, uint16_t>(d, begin, end) : dequantize_as<false, uint16_t>(d, begin, end);
    }
}

typedef uint64_t Words __attribute__((vector_size(64)));

// Sum of the 64-bit words: the compiler cannot drop the loads, and four sums keep the additions off the critical path
uint64_t read(const uint8_t* data, int64_t bytes) {
    Words sum[4] = {};
    int64_t i = 0;
    for (; i + 256 <= bytes; i += 256) {
        for (int part = 0; part < 4; ++part) {
            Words words;
            memcpy(&words, data + i + 64 * part, 64);
            sum[part] += words;
        }
    }
    uint64_t total = 0;
    for (; i < bytes; ++i) total += data[i];
    for (int part = 0; part < 4; ++part) {
        for (int word = 0; word < 8; ++word) total += sum[part][word];
    }
    return total;
}

template <bool STREAMING> INLINE void put_words(uint8_t* to, Words words) {
#if defined(__AVX512F__)
    if constexpr (STREAMING) return _mm512_stream_si512(reinterpret_cast<__m512i*>(to), reinterpret_cast<__m512i>(words));
#elif defined(__AVX2__)
    if constexpr (STREAMING) {
        __m256i half[2];
        memcpy(half, &words, 64);
        _mm256_stream_si256(reinterpret_cast<__m256i*>(to), half[0]);
        return _mm256_stream_si256(reinterpret_cast<__m256i*>(to) + 1, half[1]);
    }
#elif defined(__x86_64__)
    if constexpr (STREAMING) {
        __m128i quarter[4];
        memcpy(quarter, &words, 64);
        for (int part = 0; part < 4; ++part) _mm_stream_si128(reinterpret_cast<__m128i*>(to) + part, quarter[part]);
        return;
    }
#endif
    memcpy(to, &words, 64);
}

// The empty assembly hides each step, or the compiler would see memset and memcpy, which choose their stores themselves
template <bool STREAMING> void fill_with(uint8_t* to, int64_t bytes, uint64_t value) {
    const Words words = Words{} + value;
    for (int64_t i = 0; i < bytes; i += 64) {
        put_words<STREAMING>(to + i, words);
        asm volatile("" ::: "memory");
    }
}

template <bool STREAMING> void copy_with(uint8_t* to, const uint8_t* from, int64_t bytes) {
    for (int64_t i = 0; i < bytes; i += 64) {
        Words words;
        memcpy(&words, from + i, 64);
        put_words<STREAMING>(to + i, words);
        asm volatile("" ::: "memory");
    }
}

INLINE void settle() {
#if defined(__x86_64__)
    _mm_sfence();
#endif
}

void fill(uint8_t* to, int64_t bytes, uint64_t value, int streaming) {
    if (!streaming) return fill_with<false>(to, bytes, value);
    fill_with<true>(to, bytes, value);
    settle();
}

void copy(uint8_t* to, const uint8_t* from, int64_t bytes, int streaming) {
    if (!streaming) return copy_with<false>(to, from, bytes);
    copy_with<true>(to, from, bytes);
    settle();
}

}  // namespace

#define JOIN2(a, b) a##b
#define JOIN(a, b) JOIN2(a, b)

namespace rooflens {
extern const MemoryFunctions JOIN(memory_, ISA);
const MemoryFunctions JOIN(memory_, ISA) = {dequantize, read, fill, copy};
}  // namespace rooflens
