// The 4-bit kernels of the CPU: a GEMM that decodes its weights in registers, and dequantization for its baseline. The
// sweeps over memory at the end are for calibration.
//
// The file is compiled for the CPU that it runs on, where a vector has LANES lanes of 32 bits. Lanes run over rows of W:
// a decoded vector meets an activation in all lanes, so that no sum is taken across lanes, and a weight that is decoded
// once serves all batch rows of a tile.
#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <functional>
#include <thread>
#include <utility>
#include <vector>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace {

#if defined(__AVX512F__)
constexpr int LANES = 16, TILE_M = 24;  // batch rows of a tile at most: their sums stay in registers
#elif defined(__AVX2__)
constexpr int LANES = 8, TILE_M = 10;
#else
constexpr int LANES = 4, TILE_M = 8;
#endif
constexpr int ROWS = 16;            // rows of W in a panel
constexpr int CHUNK = 8;            // columns of W in a 32-bit word
constexpr int PREFETCH = 96;        // chunks ahead, 6 KiB: out-of-order execution alone looks less than 2 KiB ahead
constexpr int64_t BLOCK_M = 240;    // batch rows that pass over W together, so that their X stays in the caches
constexpr int64_t SHARE = 1 << 17;  // weights that one task dequantizes, a multiple of every group

typedef float F __attribute__((vector_size(4 * LANES)));
typedef uint32_t U __attribute__((vector_size(4 * LANES)));
typedef uint64_t Pairs __attribute__((vector_size(4 * LANES)));
typedef uint16_t H __attribute__((vector_size(2 * LANES)));

template <class V> inline V load(const void* from) {
    V value;
    memcpy(&value, from, sizeof value);
    return value;
}

// table[low four bits of each lane]
inline F lookup(const float* table, U index) {
#if defined(__AVX512F__)
    return (F)_mm512_permutexvar_ps((__m512i)index, _mm512_loadu_ps(table));
#elif defined(__AVX2__)  // a register holds eight entries: look up in both halves; bit 3, moved to the sign, chooses
    const __m256 low = _mm256_permutevar8x32_ps(_mm256_loadu_ps(table), (__m256i)index);
    const __m256 high = _mm256_permutevar8x32_ps(_mm256_loadu_ps(table + 8), (__m256i)index);
    return (F)_mm256_blendv_ps(low, high, (__m256)(index << 28));
#else
    F found;
    for (int lane = 0; lane < LANES; ++lane) found[lane] = table[index[lane] & 15];
    return found;
#endif
}

// ---- element types ------------------------------------------------------------------------------------------------

enum DType : int64_t { BF16, FP16, FP32 };

inline float widen(const void* from, int64_t i, int64_t dtype) {
    if (dtype == FP32) return load<float>(static_cast<const char*>(from) + 4 * i);
    const uint32_t half = load<uint16_t>(static_cast<const char*>(from) + 2 * i);
    uint32_t bits = half << 16;
    if (dtype == FP16) {
        const uint32_t size = (half & 0x7fff) << 13;
        const float finite = load<float>(&size) * 0x1p112f;  // restores the exponent, exactly, also of subnormals
        bits = (half & 0x8000) << 16 | ((half & 0x7c00) == 0x7c00 ? size | 0x7f800000 : load<uint32_t>(&finite));
    }
    return load<float>(&bits);
}

// Bits of fp32 values in `dtype`, rounded to nearest even; a NaN stays a NaN
inline U rounded(F value, int64_t dtype) {
    const U bits = (U)value, none = {};
    if (dtype == FP32) return bits;
    if (dtype == BF16) return value == value ? (bits + 0x7fff + (bits >> 16 & 1)) >> 16 : none + 0x7fc0;
#if defined(__AVX512F__)
    return (U)_mm512_cvtepu16_epi32(_mm512_cvtps_ph(value, _MM_FROUND_TO_NEAREST_INT));
#elif defined(__AVX2__) && defined(__F16C__)
    return (U)_mm256_cvtepu16_epi32(_mm256_cvtps_ph(value, _MM_FROUND_TO_NEAREST_INT));
#else
    const U sign = bits >> 16 & 0x8000, size = bits & 0x7fffffff;
    const U normal = (size + 0xfff + (size >> 13 & 1) - 0x38000000) >> 13;
    const U subnormal = (U)((F)size + 0.5f) - 0x3f000000;  // the ulp of 0.5 is 2^-24: the addition rounds
    const U finite = size < 0x38800000 ? subnormal : normal;
    return sign | (value == value ? (size >= 0x477ff000 ? none + 0x7c00 : finite) : none + 0x7e00);
#endif
}

// Store a vector; `streaming`: past the caches, for which `to` is aligned to the vector. The atomic counter of
// `parallel_for` orders these stores before whatever follows.
template <class V> inline void put(char* to, V value, bool streaming) {
#if defined(__AVX512F__)  // a copy of memory is 15 % faster than by quarters
    if (streaming && sizeof value == 64) return _mm512_stream_si512((__m512i*)to, load<__m512i>(&value));
#endif
#if defined(__SSE2__)
    if (streaming && sizeof value >= 16) {
        for (size_t i = 0; i < sizeof value; i += 16) {
            _mm_stream_si128((__m128i*)(to + i), load<__m128i>((const char*)&value + i));
        }
        return;
    }
#endif
    memcpy(to, &value, sizeof value);
}

inline void put_rounded(char* to, F value, int64_t dtype) {
    const U bits = rounded(value, dtype);
    if (dtype == FP32) put(to, bits, false);
    else put(to, __builtin_convertvector(bits, H), false);
}

// ---- threads ------------------------------------------------------------------------------------------------------

// Call body(task) for tasks 0 .. tasks-1. Threads take tasks one by one: a core that was given to another process does
// not hold up the rest. They are those of torch's OpenMP, found by name: its idle threads spin for a while, so that
// others would compete with them for the cores. Without OpenMP threads are started for each call.
void parallel_for(int64_t threads, int64_t tasks, const std::function<void(int64_t)>& body) {
    struct Region {
        const std::function<void(int64_t)>& body;
        int64_t tasks;
        std::atomic<int64_t> next;
    } region{body, tasks, {0}};
    const auto work = [](void* pointer) {
        Region& r = *static_cast<Region*>(pointer);
        for (int64_t task; (task = r.next.fetch_add(1, std::memory_order_relaxed)) < r.tasks;) r.body(task);
    };
    using Parallel = void (*)(void (*)(void*), void*, unsigned, unsigned);
    static const Parallel openmp = reinterpret_cast<Parallel>(dlsym(RTLD_DEFAULT, "GOMP_parallel"));
    const int64_t team = std::min(threads, tasks);
    if (team > 1 && openmp) return openmp(work, &region, static_cast<unsigned>(team), 0);
    std::vector<std::thread> helpers;
    for (int64_t i = 1; i < team; ++i) helpers.emplace_back(work, &region);
    work(&region);
    for (std::thread& helper : helpers) helper.join();
}

// ---- GEMM ---------------------------------------------------------------------------------------------------------

// Y[M,N] = X[M,K] W[N,K]^T + bias, sums in fp32. A group, which divides K, has one scale; rows beyond N are zero.
// w       panels of 16 rows [cd(N,16)][K/8][16] of 32-bit words: eight columns of a row, the first in the lowest bits
// scales  [cd(N,16)][K/group][16]
// copy    room for X in fp32, [K][rows] for each tile of batch rows: read front to back whatever the stride of X
struct Gemm {
    const void* x;
    const uint32_t* w;
    const float *scales, *code;
    const void* bias;  // or null
    char* y;
    float* copy;
    int64_t M, N, K, group, dtype, threads;

    int64_t tiles() const { return (M + TILE_M - 1) / TILE_M; }
    int64_t panels() const { return (N + ROWS - 1) / ROWS; }
    int64_t start(int64_t tile) const { return tile * M / tiles(); }  // first batch row
};

void copy_x(const Gemm& g, int64_t tile) {
    const int64_t begin = g.start(tile), rows = g.start(tile + 1) - begin;
    for (int64_t m = 0; m < rows; ++m) {
        float* to = g.copy + begin * g.K + m;
        for (int64_t k = 0; k < g.K; ++k) to[k * rows] = widen(g.x, (begin + m) * g.K + k, g.dtype);
    }
}

void store_y(const Gemm& g, int64_t m, int64_t n, F sum) {
    const int64_t size = g.dtype == FP32 ? 4 : 2, count = std::min<int64_t>(LANES, g.N - n);
    if (count <= 0) return;
    for (int64_t i = 0; g.bias && i < count; ++i) sum[i] += widen(g.bias, n + i, g.dtype);
    char row[sizeof(F)];
    put_rounded(row, sum, g.dtype);
    memcpy(g.y + (m * g.N + n) * size, row, count * size);
}

// LANES rows of a panel, from `lane`, times M batch rows from m0. Codes enter the products as they are; the sums of a
// group are multiplied by its scale.
template <int M> void multiply(const Gemm& g, int64_t panel, int64_t lane, int64_t m0) {
    constexpr int SPLIT = M < 2 ? 8 : M < 4 ? 4 : M < 7 ? 2 : 1;  // enough sums to cover the latency of an addition
    const int64_t groups = g.K / g.group;
    const uint32_t* w = g.w + panel * (g.K / CHUNK) * ROWS + lane;
    const float* scale = g.scales + panel * groups * ROWS + lane;
    const float* x = g.copy + m0 * g.K;
    F total[M] = {};
    for (int64_t group = 0; group < groups; ++group) {
        F sum[SPLIT][M] = {};
        for (int64_t chunk = 0; chunk < g.group / CHUNK; ++chunk) {
            const U words = load<U>(w);
#pragma GCC unroll 8
            for (int k = 0; k < CHUNK; ++k) {
                const F weight = lookup(g.code, words >> 4 * k);
#pragma GCC unroll 24
                for (int m = 0; m < M; ++m) sum[k % SPLIT][m] += weight * x[k * M + m];
            }
            __builtin_prefetch(w + PREFETCH * ROWS);
            w += ROWS;
            x += CHUNK * M;
        }
#pragma GCC unroll 24
        for (int m = 0; m < M; ++m) {
            F all = sum[0][m];
#pragma GCC unroll 8
            for (int s = 1; s < SPLIT; ++s) all += sum[s][m];
            total[m] += all * load<F>(scale);
        }
        scale += ROWS;
    }
    for (int m = 0; m < M; ++m) store_y(g, m0 + m, panel * ROWS + lane, total[m]);
}

using Multiply = void (*)(const Gemm&, int64_t, int64_t, int64_t);
template <int... I> Multiply multiply_by(int64_t rows, std::integer_sequence<int, I...>) {
    static constexpr Multiply table[] = {multiply<I + 1>...};
    return table[rows - 1];
}

void gemm(const Gemm& g) {
    // two tasks per thread if there are enough tiles
    const int64_t passes = (g.M + BLOCK_M - 1) / BLOCK_M, wanted = (2 * g.threads + g.panels() - 1) / g.panels();
    const int64_t parts = std::min(g.tiles(), std::max(passes, wanted));
    parallel_for(g.threads, g.tiles(), [&](int64_t tile) { copy_x(g, tile); });
    parallel_for(g.threads, g.panels() * parts, [&](int64_t task) {
        const int64_t panel = task % g.panels(), part = task / g.panels();
        for (int64_t tile = part * g.tiles() / parts; tile < (part + 1) * g.tiles() / parts; ++tile) {
            const int64_t begin = g.start(tile);
            const Multiply run = multiply_by(g.start(tile + 1) - begin, std::make_integer_sequence<int, TILE_M>());
            for (int64_t lane = 0; lane < ROWS; lane += LANES) run(g, panel, lane, begin);
        }
    });
}

// bitsandbytes' packing (flat, the even element in the high nibble) -> the panels of `Gemm`
struct Pack {
    const uint8_t* packed;
    uint32_t* w;
    int64_t N, K, threads;
};

void pack(const Pack& p) {
    parallel_for(p.threads, (p.N + ROWS - 1) / ROWS, [&](int64_t panel) {
        uint32_t* to = p.w + panel * (p.K / CHUNK) * ROWS;
        for (int64_t row = panel * ROWS; row < std::min((panel + 1) * ROWS, p.N); ++row, ++to) {
            for (int64_t k = 0; k < p.K; ++k) {
                const int64_t i = row * p.K + k;
                const uint32_t nibble = p.packed[i / 2] >> (i % 2 ? 0 : 4) & 15;
                to[k / CHUNK * ROWS] |= nibble << (k % CHUNK * 4);
            }
        }
    });
}

// ---- dequantization -----------------------------------------------------------------------------------------------

// out[i] = round((code[nibble i] - zero[j]) * absmax[j]), j = i / group, packed as bitsandbytes packs it. A group has 16
// weights or more: its sixteen products are rounded first, and then looked up.
struct Dequantize {
    const uint8_t* packed;
    const float *absmax, *zero, *code;  // zero may be null
    char* out;
    int64_t count, group, dtype, streaming, threads;
};

// Nibbles of LANES weights, a pair of lanes for each byte, its high half first; `lookup` ignores higher bits
inline U nibbles(const uint8_t* packed) {
    uint64_t word = 0;
    memcpy(&word, packed, LANES / 2);
    Pairs shift;
    for (int i = 0; i < LANES / 2; ++i) shift[i] = 8 * i;
    const Pairs bytes = (Pairs{} + word) >> shift;
    return (U)((bytes >> 4 & 15) | bytes << 32);
}

template <int64_t DTYPE, bool STREAMING> void dequantize_share(const Dequantize& d, int64_t begin) {
    constexpr int64_t size = DTYPE == FP32 ? 4 : 2;
    const int64_t end = std::min(begin + SHARE, d.count);
    for (int64_t first = begin, j = begin / d.group; first < end; first += d.group, ++j) {
        const float scale = d.absmax[j], zero = d.zero ? d.zero[j] : 0;
        float table[16];  // sixteen values of the type, whatever its size
        char* const values = reinterpret_cast<char*>(table);
        for (int i = 0; i < 16; i += LANES) put_rounded(values + i * size, (load<F>(d.code + i) - zero) * scale, DTYPE);
        const int64_t count = std::min(first + d.group, end) - first;
        const uint8_t* packed = d.packed + first / 2;
        char* out = d.out + first * size;
        int64_t i = 0;
        if (DTYPE == FP32 && LANES > 4) {
            for (; i + LANES <= count; i += LANES) put(out + 4 * i, lookup(table, nibbles(packed + i / 2)), STREAMING);
        }
#if defined(__AVX512BW__)  // 16 bits: the table twice, as a lookup takes five bits of each half of a lane
        const __m512i twice = _mm512_broadcast_i64x4(load<__m256i>(values));
        for (; DTYPE != FP32 && i + 32 <= count; i += 32) {
            const U pairs = (U)_mm512_cvtepu8_epi32(load<__m128i>(packed + i / 2));
            put(out + 2 * i, _mm512_permutexvar_epi16((__m512i)(pairs >> 4 | pairs << 16), twice), STREAMING);
        }
#endif
#if defined(__SSSE3__)  // 16 bits: shuffles of bytes look up the low and the high bytes apart
        const __m128i a = load<__m128i>(values), b = load<__m128i>(values + 16), byte = _mm_set1_epi16(255);
        const __m128i low = _mm_packus_epi16(a & byte, b & byte);
        const __m128i high = _mm_packus_epi16(_mm_srli_epi16(a, 8), _mm_srli_epi16(b, 8));
        for (; DTYPE != FP32 && i + 16 <= count; i += 16) {
            const __m128i pairs = _mm_loadl_epi64((const __m128i*)(packed + i / 2)), nibble = _mm_set1_epi8(15);
            const __m128i index = _mm_unpacklo_epi8(_mm_srli_epi16(pairs, 4) & nibble, pairs & nibble);
            const __m128i below = _mm_shuffle_epi8(low, index), above = _mm_shuffle_epi8(high, index);
            put(out + 2 * i, _mm_unpacklo_epi8(below, above), STREAMING);
            put(out + 2 * i + 16, _mm_unpackhi_epi8(below, above), STREAMING);
        }
#endif
        const auto put_one = [&](int64_t at, int code) { memcpy(out + at * size, values + code * size, size); };
        for (; i + 2 <= count; i += 2) put_one(i, packed[i / 2] >> 4), put_one(i + 1, packed[i / 2] & 15);
        if (i < count) put_one(i, packed[i / 2] >> 4);
    }
}

void dequantize(const Dequantize& d) {
    static constexpr void (*shares[3][2])(const Dequantize&, int64_t) = {
        {dequantize_share<BF16, false>, dequantize_share<BF16, true>},
        {dequantize_share<FP16, false>, dequantize_share<FP16, true>},
        {dequantize_share<FP32, false>, dequantize_share<FP32, true>},
    };
    const auto share = shares[d.dtype][d.streaming];
    parallel_for(d.threads, (d.count + SHARE - 1) / SHARE, [&](int64_t task) { share(d, task * SHARE); });
}

// ---- sweeps over memory -------------------------------------------------------------------------------------------

// `passes` sweeps that read `from` (`to` is null), fill `to` (`from` is null) or copy; what is written is whole, aligned
// cache lines. Each thread keeps to one contiguous share. Fills write no zeros, which some machines write faster.
struct Sweep {
    const char* from;
    char* to;
    int64_t bytes, passes, streaming, threads;
};

template <bool STREAMING> uint64_t sweep_once(const char* from, char* to, int64_t bytes, uint64_t value) {
    uint64_t sum = 0;
    if (!to) {
        for (int64_t i = 0; i + 8 <= bytes; i += 8) sum += load<uint64_t>(from + i);
        return sum;
    }
    Pairs words = Pairs{} + value;
    for (int64_t i = 0; i < bytes; i += sizeof(Pairs)) {
        if (from) words = load<Pairs>(from + i);
        put(to + i, words, STREAMING);
        asm volatile("" ::: "memory");  // or the compiler would see memset and memcpy, which choose their own stores
    }
    return 0;
}

// Returns the sum of all words that were read: the compiler cannot drop the loads
int64_t sweep(const Sweep& s) {
    const int64_t share = std::max<int64_t>(s.bytes / s.threads + 4095, 4096) / 4096 * 4096;
    std::atomic<uint64_t> sum{0};
    parallel_for(s.threads, (s.bytes + share - 1) / share, [&](int64_t task) {
        const int64_t begin = task * share, count = std::min(share, s.bytes - begin);
        const char* from = s.from ? s.from + begin : nullptr;
        char* to = s.to ? s.to + begin : nullptr;
        for (int64_t pass = 1; pass <= s.passes; ++pass) {
            sum += (s.streaming ? sweep_once<true> : sweep_once<false>)(from, to, count, pass * 0x9e3779b97f4a7c15);
        }
    });
    return static_cast<int64_t>(sum);
}

}  // namespace

// What cpu_library.py calls: each with a block of 64-bit words, which are the fields of its struct
#define API extern "C" __attribute__((visibility("default"))) int64_t
API rooflens_lanes(const void*) { return LANES; }
API rooflens_gemm(const Gemm* g) { return gemm(*g), 0; }
API rooflens_pack(const Pack* p) { return pack(*p), 0; }
API rooflens_dequantize(const Dequantize* d) { return dequantize(*d), 0; }
API rooflens_sweep(const Sweep* s) { return sweep(*s); }
