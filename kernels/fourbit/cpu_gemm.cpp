// Fused 4-bit decode + GEMM, compiled once per instruction set (ISA is the suffix of what it exports).
//
// Lanes run over sixteen rows of W, so that a decoded vector meets a broadcast activation: no horizontal sums, and each
// decoded weight serves all the batch rows of a register tile. Two kernels:
//   stream  decodes in registers. Codes enter the products unscaled; the sums of one block are multiplied by its absmax
//           once. W is read once per task and, when M exceeds a register tile, again from L2 for each further tile.
//   panel   decodes and scales a block of W into an L2-sized buffer, then runs a blocked GEMM over it: for large M, and
//           for K that is no multiple of 32, where the sixteen rows change absmax at sixteen different columns.
// Two arithmetics: Full is fp32 throughout. Pairs (bf16 activations, AVX512_BF16) multiplies bf16 pairs into fp32 sums
// (vdpbf16ps, which flushes subnormals): stream rounds the sixteen codes to bf16 and keeps absmax in fp32; panel rounds
// code * absmax to bf16, as dequantizing to bf16 does.
#include <sched.h>

#include "cpu_api.hpp"
#include "cpu_arithmetic.hpp"

namespace {

using rooflens::CHUNK;
using rooflens::Gemm;
using rooflens::PAIR;
using rooflens::ROWS;

#if defined(__AVX512F__)
constexpr int UNIT = 2, STREAM_ROWS = 12, PANEL_ROWS = 12;  // tiles and batch rows of a register tile: 24 registers
#elif defined(__AVX2__)
constexpr int UNIT = 1, STREAM_ROWS = 4, PANEL_ROWS = 6;
#elif defined(__aarch64__)
constexpr int UNIT = 1, STREAM_ROWS = 4, PANEL_ROWS = 4;
#else
constexpr int UNIT = 1, STREAM_ROWS = 2, PANEL_ROWS = 2;
#endif
constexpr int PREFETCH = 48;           // chunks ahead, 6 KiB of a pair: the decode fills the reorder buffer, so that
                                       // out-of-order execution alone looks less than 2 KiB ahead
constexpr int PANEL_TILES = 4;         // tiles of W decoded together
constexpr int PANEL_BYTES = 64 << 10;  // their decoded bytes at most: L2 has at least 256 KiB
constexpr int64_t BLOCK_M = 264;       // batch rows that pass over W together, so that their X stays in the last-level
                                       // cache; a multiple of every register tile

INLINE int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
INLINE int64_t tiles(const Gemm& g) { return rooflens::tiles_of(g.N); }
INLINE int64_t chunks(const Gemm& g) { return (g.K + CHUNK - 1) / CHUNK; }
INLINE int64_t blocks(const Gemm& g) { return (g.N * g.K + (int64_t{1} << g.block_log2) - 1) >> g.block_log2; }

// ---- scales -------------------------------------------------------------------------------------------------------

// place of vector `index` of a tile in an array [T/2][count][2][16]
INLINE int64_t in_pair(int64_t tile, int64_t index, int64_t count) {
    return ((tile / PAIR * count + index) * PAIR + tile % PAIR) * ROWS;
}

// absmax of group `group` of the sixteen rows of a tile
INLINE F16 tile_scales(const Gemm& g, int64_t tile, int64_t group) {
    const int64_t groups = g.K >> g.group_log2;
    const int64_t first = in_pair(tile, group, groups);
    if (!g.nested) return load(static_cast<const float*>(g.scales) + first);
    const uint8_t* q = static_cast<const uint8_t*>(g.scales) + first;
    const int64_t last = blocks(g) - 1;  // rows beyond N have scales of no meaning, but in bounds
    float lane[ROWS];
    for (int r = 0; r < ROWS; ++r) {
        const int64_t element = (tile * ROWS + r) * g.K + (group << g.group_log2);
        const int64_t block = least(element >> g.block_log2, last);
        lane[r] = g.nested_code[q[r]] * g.nested_scale[block / rooflens::NESTED_BLOCK] + g.nested_offset;
    }
    return load(lane);
}

INLINE float flat_scale(const Gemm& g, int64_t block) {
    if (!g.nested) {
        float value;
        memcpy(&value, static_cast<const char*>(g.scales) + block * 4, 4);
        return value;
    }
    const uint8_t q = static_cast<const uint8_t*>(g.scales)[block];
    return g.nested_code[q] * g.nested_scale[block / rooflens::NESTED_BLOCK] + g.nested_offset;
}

// absmax of the eight columns of one chunk for sixteen rows whose blocks end anywhere. A block has at least 32
// elements, so that a chunk of a row holds parts of two at most.
INLINE void straddled_scales(const Gemm& g, int64_t tile, int64_t chunk, F16* scale) {
    float before[ROWS], after[ROWS], lane[ROWS];
    int32_t left[ROWS];
    const int64_t k = chunk * CHUNK, last_k = least(k + CHUNK, g.K) - 1;
    for (int r = 0; r < ROWS; ++r) {
        const int64_t row = least(tile * ROWS + r, g.N - 1) * g.K;
        const int64_t block = (row + k) >> g.block_log2, last = (row + last_k) >> g.block_log2;
        before[r] = flat_scale(g, block);
        after[r] = flat_scale(g, last);
        left[r] = static_cast<int32_t>(least(((block + 1) << g.block_log2) - row - k, CHUNK));
    }
    for (int column = 0; column < CHUNK; ++column) {
        for (int r = 0; r < ROWS; ++r) lane[r] = column < left[r] ? before[r] : after[r];
        scale[column] = load(lane);
    }
}

// ---- activations --------------------------------------------------------------------------------------------------

INLINE int64_t columns(const Gemm& g) { return chunks(g) * CHUNK; }

// Batch rows of M in `count` register tiles of sizes that differ by one at most; tile t starts at t * M / count.
INLINE int64_t row_tiles(const Gemm& g) {
    const int limit = g.kernel == rooflens::STREAM ? STREAM_ROWS : PANEL_ROWS;
    return (g.M + limit - 1) / limit;
}

INLINE int64_t row_start(const Gemm& g, int64_t t) { return t * g.M / row_tiles(g); }

// One row alone is used where it lies if it has the element type of the arithmetic and no tail.
template <class P> INLINE bool in_place(const Gemm& g) {
    return g.M == 1 && g.K % CHUNK == 0 && (P::COLUMNS == 2 || g.dtype == rooflens::FP32);
}

constexpr int64_t PACK_COLUMNS = 1024;  // per packing task

INLINE int64_t pack_blocks(const Gemm& g) { return (columns(g) + PACK_COLUMNS - 1) / PACK_COLUMNS; }

// One task of X[M,K] -> per register tile [step][row]: the kernels read it front to back, whatever the stride of X
template <class P> void pack_x(const Gemm& g, int64_t task, typename P::X* packed) {
    const int64_t t = task / pack_blocks(g), begin = task % pack_blocks(g) * PACK_COLUMNS;
    const int64_t end = least(begin + PACK_COLUMNS, columns(g));
    const int64_t m0 = row_start(g, t), rows = row_start(g, t + 1) - m0;
    typename P::X* to = packed + m0 * (columns(g) / P::COLUMNS);
    for (int64_t m = 0; m < rows; ++m) {
        const int64_t offset = (m0 + m) * g.K;
        for (int64_t k = begin; k < end; k += CHUNK) {
            const int64_t count = least(CHUNK, g.K - k);
            if constexpr (P::COLUMNS == 2) {
                uint32_t pair[CHUNK / 2] = {};
                memcpy(pair, static_cast<const uint16_t*>(g.x) + offset + k, count * 2);
                for (int i = 0; i < CHUNK / 2; ++i) to[(k / 2 + i) * rows + m] = pair[i];
            } else {
                float value[16] = {};
                if (g.dtype == rooflens::FP32) {
                    memcpy(value, static_cast<const float*>(g.x) + offset + k, count * 4);
                } else {
                    uint16_t half[16] = {};
                    memcpy(half, static_cast<const uint16_t*>(g.x) + offset + k, count * 2);
                    store(value, g.dtype == rooflens::BF16 ? load_bf16(half) : load_fp16(half));
                }
                for (int i = 0; i < CHUNK; ++i) to[(k + i) * rows + m] = value[i];
            }
        }
    }
}

// ---- output -------------------------------------------------------------------------------------------------------

// y[m][n0 .. n0 + 15] = sum + bias, cut at N
INLINE void store_y(const Gemm& g, int64_t m, int64_t n0, F16 sum) {
    const int64_t count = least(ROWS, g.N - n0);
    if (count <= 0) return;
    const int64_t size = g.dtype == rooflens::FP32 ? 4 : 2;
    float lane[ROWS] = {};
    uint16_t half[ROWS] = {};
    if (g.bias) {
        const char* bias = static_cast<const char*>(g.bias) + n0 * size;
        memcpy(g.dtype == rooflens::FP32 ? static_cast<void*>(lane) : half, bias, count * size);
        const F16 rounded = g.dtype == rooflens::BF16 ? load_bf16(half) : load_fp16(half);
        sum = add(sum, g.dtype == rooflens::FP32 ? load(lane) : rounded);
    }
    char* y = static_cast<char*>(g.y) + (m * g.N + n0) * size;
    if (g.dtype == rooflens::FP32) {
        store(lane, sum);
        memcpy(y, lane, count * 4);
    } else {
        g.dtype == rooflens::BF16 ? store_bf16(half, sum) : store_fp16(half, sum);
        if (count == ROWS) memcpy(y, half, ROWS * 2);
        else memcpy(y, half, count * 2);
    }
}

// ---- stream -------------------------------------------------------------------------------------------------------

template <class P, int M> void stream_tile(const Gemm& g, int64_t tile, int64_t m0, const typename P::X* x) {
    constexpr int N = UNIT;
    constexpr int SPLIT = M * N < 6 ? 2 : 1;  // independent sums, enough of them to cover the latency of multiply_add
    const typename P::Codes codes = P::codes(g.code);
    const int64_t groups = g.K >> g.group_log2, group_chunks = int64_t{1} << (g.group_log2 - 3);
    const uint32_t* w = g.w + in_pair(tile, 0, chunks(g));
    F16 total[M][N];
    unroll<M>(EACH(m) { unroll<N>(EACH(n) { total[m.value][n.value] = zero(); }); });
    for (int64_t group = 0; group < groups; ++group) {
        F16 sum[SPLIT][M][N];
        unroll<SPLIT>(EACH(s) {
            unroll<M>(EACH(m) { unroll<N>(EACH(n) { sum[s.value][m.value][n.value] = zero(); }); });
        });
        for (int64_t chunk = 0; chunk < group_chunks; ++chunk) {
            U16 words[N];
            unroll<N>(EACH(n) { words[n.value] = load_words(w + n.value * ROWS); });
            unroll<P::STEPS>(EACH(s) {
                constexpr int step = decltype(s)::value, at = P::position(step) * M;
                typename P::W decoded[N];
                unroll<N>(EACH(n) { decoded[n.value] = P::template decode<step>(codes, words[n.value]); });
                unroll<M>(EACH(m) {
                    const auto value = P::broadcast(x, at + m.value);
                    unroll<N>(EACH(n) {
                        F16& into = sum[step % SPLIT][m.value][n.value];
                        into = P::multiply_add(decoded[n.value], value, into);
                    });
                });
            });
            unroll<N>(EACH(n) { __builtin_prefetch(w + n.value * ROWS + PREFETCH * PAIR * ROWS); });
            w += PAIR * ROWS;
            x += P::STEPS * M;
        }
        unroll<N>(EACH(n) {
            const F16 scale = tile_scales(g, tile + n.value, group);
            unroll<M>(EACH(m) {
                F16 all = sum[0][m.value][n.value];
                if constexpr (SPLIT == 2) all = add(all, sum[1][m.value][n.value]);
                total[m.value][n.value] = fma(all, scale, total[m.value][n.value]);
            });
        });
    }
    unroll<M>(EACH(m) {
        unroll<N>(EACH(n) { store_y(g, m0 + m.value, (tile + n.value) * ROWS, total[m.value][n.value]); });
    });
}

// ---- panel --------------------------------------------------------------------------------------------------------

template <class P> void decode_panel(const Gemm& g, int64_t tile, int64_t begin, int64_t end, float* panel) {
    const Table table = table_of(g.code);
    const uint32_t* w = g.w + in_pair(tile, begin, chunks(g));
    F16 scale[CHUNK];
    int64_t loaded = -1;
    for (int64_t chunk = begin; chunk < end; ++chunk) {
        const int64_t group = chunk * CHUNK >> g.group_log2;
        if (g.straddled) {
            straddled_scales(g, tile, chunk, scale);
        } else if (group != loaded) {
            const F16 same = tile_scales(g, tile, group);
            unroll<CHUNK>(EACH(i) { scale[i.value] = same; });
            loaded = group;
        }
        const U16 words = load_words(w);
        unroll<P::STEPS>(EACH(s) {
            constexpr int step = decltype(s)::value;
            P::store_w(panel + P::position(step) * ROWS, P::template decode_scaled<step>(table, words, scale));
        });
        w += PAIR * ROWS;
        panel += P::STEPS * ROWS;
    }
}

// sums[m][n] += x[step][m] * panel[n][step], with n over UNIT tiles `stride` floats apart
template <class P, int M>
void panel_tile(int64_t steps, const typename P::X* x, const float* panel, int64_t stride, float* sums, int64_t width) {
    constexpr int N = UNIT;
    F16 sum[M][N];
    unroll<M>(EACH(m) {
        unroll<N>(EACH(n) { sum[m.value][n.value] = load(sums + m.value * width + n.value * ROWS); });
    });
    for (int64_t step = 0; step < steps; ++step) {
        typename P::W w[N];
        unroll<N>(EACH(n) { w[n.value] = P::load_w(panel + n.value * stride); });
        unroll<M>(EACH(m) {
            const auto value = P::broadcast(x, m.value);
            unroll<N>(EACH(n) { sum[m.value][n.value] = P::multiply_add(w[n.value], value, sum[m.value][n.value]); });
        });
        panel += ROWS;
        x += M;
    }
    unroll<M>(EACH(m) {
        unroll<N>(EACH(n) { store(sums + m.value * width + n.value * ROWS, sum[m.value][n.value]); });
    });
}

// ---- tables over the compile-time tile sizes, and the tasks -------------------------------------------------------

template <class P> struct Tables {
    using Stream = void (*)(const Gemm&, int64_t, int64_t, const typename P::X*);
    using Panel = void (*)(int64_t, const typename P::X*, const float*, int64_t, float*, int64_t);
    Stream stream[STREAM_ROWS] = {};
    Panel panel[PANEL_ROWS] = {};
    constexpr Tables() {
        unroll<STREAM_ROWS>(EACH(m) { stream[m.value] = stream_tile<P, m.value + 1>; });
        unroll<PANEL_ROWS>(EACH(m) { panel[m.value] = panel_tile<P, m.value + 1>; });
    }
};

template <class P> struct Task {
    const Gemm& g;
    const typename P::X* x;
    typename P::X* packed;  // x again where it is a copy that the first tasks make
    uint8_t* buffers;       // panel: one per worker
    int64_t unit;           // tiles of W per task
    int64_t units;          // tasks along N
    int64_t parts;          // tasks along M
    int64_t packs;          // tasks that pack X, before all others
    int64_t packed_count;   // of which are done
};

template <class P> int64_t panel_chunks() { return PANEL_BYTES / (PANEL_TILES * P::STEPS * ROWS * 4); }

template <class P> int64_t buffer_bytes(const Gemm& g) {
    const int64_t panel = PANEL_TILES * panel_chunks<P>() * P::STEPS * ROWS * 4;
    const int64_t sums = least(g.M, BLOCK_M + PANEL_ROWS) * PANEL_TILES * ROWS * 4;
    return g.kernel == rooflens::PANEL ? panel + sums : 0;
}

template <class P> int64_t x_bytes(const Gemm& g) {
    return in_place<P>(g) ? 0 : (g.M * (columns(g) / P::COLUMNS) * 4 + 63) / 64 * 64;
}

template <class P> constexpr Tables<P> tables{};

template <class P> void stream_task(const Task<P>& task, int64_t index) {
    const Gemm& g = task.g;
    const int64_t first = index % task.units * UNIT, part = index / task.units, all = row_tiles(g);
    for (int64_t t = part * all / task.parts; t < (part + 1) * all / task.parts; ++t) {
        const int64_t m0 = row_start(g, t), rows = row_start(g, t + 1) - m0;
        tables<P>.stream[rows - 1](g, first, m0, task.x + m0 * (columns(g) / P::COLUMNS));
    }
}

template <class P> void panel_task(const Task<P>& task, int64_t index, int worker) {
    const Gemm& g = task.g;
    const int64_t first = index % task.units * task.unit, part = index / task.units, all = row_tiles(g);
    const int64_t count = least(task.unit, tiles(g) - first);
    const int64_t t0 = part * all / task.parts, t1 = (part + 1) * all / task.parts;
    const int64_t m_first = row_start(g, t0), m_count = row_start(g, t1) - m_first;
    constexpr int64_t width = PANEL_TILES * ROWS;
    float* panel = reinterpret_cast<float*>(task.buffers + worker * buffer_bytes<P>(g));
    float* sums = panel + PANEL_TILES * panel_chunks<P>() * P::STEPS * ROWS;
    memset(sums, 0, m_count * width * sizeof(float));
    for (int64_t chunk = 0; chunk < chunks(g); chunk += panel_chunks<P>()) {
        const int64_t end = least(chunk + panel_chunks<P>(), chunks(g)), steps = (end - chunk) * P::STEPS;
        const int64_t stride = steps * ROWS;
        for (int64_t n = 0; n < count; ++n) decode_panel<P>(g, first + n, chunk, end, panel + n * stride);
        for (int64_t t = t0; t < t1; ++t) {
            const int64_t m0 = row_start(g, t), rows = row_start(g, t + 1) - m0;
            const typename P::X* x = task.x + m0 * (columns(g) / P::COLUMNS) + chunk * P::STEPS * rows;
            for (int64_t n = 0; n < count; n += UNIT) {
                float* into = sums + (m0 - m_first) * width + n * ROWS;
                tables<P>.panel[rows - 1](steps, x, panel + n * stride, stride, into, width);
            }
        }
    }
    for (int64_t m = 0; m < m_count; ++m) {
        for (int64_t n = 0; n < count; ++n) {
            store_y(g, m_first + m, (first + n) * ROWS, load(sums + m * width + n * ROWS));
        }
    }
}

// Packing and products share one region of the team, because every end of a region waits for all workers: when others
// load the machine, each of those waits can cost a time slice. Tasks are handed out in order, so that all packing is
// done or in the hands of a running worker by the time the first product waits for it.
template <class P> void run_task(void* pointer, int64_t index, int worker) {
    Task<P>& task = *static_cast<Task<P>*>(pointer);
    if (index < task.packs) {
        pack_x<P>(task.g, index, task.packed);
        __atomic_add_fetch(&task.packed_count, 1, __ATOMIC_RELEASE);
        return;
    }
    for (int spins = 0; __atomic_load_n(&task.packed_count, __ATOMIC_ACQUIRE) < task.packs; ++spins) {
        if (spins > 1000) sched_yield();
    }
    if (task.g.kernel == rooflens::STREAM) stream_task<P>(task, index - task.packs);
    else panel_task<P>(task, index - task.packs, worker);
}

template <class P> void gemm_of(const Gemm& g) {
    const int64_t rows = row_tiles(g);
    int64_t unit = g.kernel == rooflens::STREAM ? UNIT : PANEL_TILES;
    // two tasks per worker if there is enough to share, by narrower panels first (they decode nothing twice), then by
    // splitting M
    while (unit > UNIT && (tiles(g) + unit - 1) / unit < 2 * g.threads) unit /= 2;
    const int64_t units = (tiles(g) + unit - 1) / unit;
    const int64_t passes = (g.M + BLOCK_M - 1) / BLOCK_M, wanted = (2 * g.threads + units - 1) / units;
    const int64_t parts = least(rows, passes > wanted ? passes : wanted);
    const bool direct = in_place<P>(g);
    const int64_t packs = direct ? 0 : rows * pack_blocks(g);
    typename P::X* packed = reinterpret_cast<typename P::X*>(g.scratch);
    const typename P::X* x = direct ? static_cast<const typename P::X*>(g.x) : packed;
    Task<P> task{g, x, packed, g.scratch + x_bytes<P>(g), unit, units, parts, packs, 0};
    rooflens::parallel_for(g.threads, packs + units * parts, run_task<P>, &task);
}

#if defined(__AVX512BF16__)
using Arithmetic = Pairs;  // the entry point sends bf16 only; other types run the AVX-512 object
#else
using Arithmetic = Full;
#endif

void gemm(const Gemm& g) { gemm_of<Arithmetic>(g); }

int64_t scratch_bytes(const Gemm& g) {
    return x_bytes<Arithmetic>(g) + g.threads * buffer_bytes<Arithmetic>(g);
}

}  // namespace

#define JOIN2(a, b) a##b
#define JOIN(a, b) JOIN2(a, b)

namespace rooflens {
extern const GemmFunctions JOIN(gemm_, ISA);
const GemmFunctions JOIN(gemm_, ISA) = {gemm, scratch_bytes};
}  // namespace rooflens
