// What the translation units of the CPU library share: the argument blocks (mirrored by cpu_library.py, field by
// field), the thread team and the tables of functions that each instruction set provides.
#pragma once
#include <cstdint>

namespace rooflens {

enum DType : int32_t { BF16 = 0, FP16 = 1, FP32 = 2 };
enum Kernel : int32_t { STREAM = 0, PANEL = 1 };
enum Isa : int32_t { PORTABLE = 0, AVX2 = 1, AVX512 = 2, AVX512_BF16 = 3, ISA_COUNT = 4 };

constexpr int ROWS = 16;            // rows of W in one tile; one 32-bit lane each
constexpr int CHUNK = 8;            // consecutive k of one row in one 32-bit word
constexpr int PAIR = 2;             // tiles come in pairs: the widest register tile takes two
constexpr int NESTED_BLOCK = 256;   // absmax values per second-level scale

static constexpr int64_t tiles_of(int64_t N) { return (N + PAIR * ROWS - 1) / (PAIR * ROWS) * PAIR; }

// Y[M,N] = X[M,K] W[N,K]^T + bias. Pointers need no alignment beyond their element's; x, w and bias not even that.
//
// T = tiles_of(N); rows beyond N are zero.
// w       pairs of tiles [T/2][cd(K,8)][2][16] of 32-bit words: word (p, c, t, r) holds row 32 p + 16 t + r, columns
//         8 c .. 8 c + 7, four bits each: bits 4 j of its low half are column 2 j, of its high half column 2 j + 1.
// scales  absmax, float; or uint8 q when nested: absmax = nested_code[q] * nested_scale[block / 256] + nested_offset.
//         A block of the format has 2^block_log2 elements of the flattened W.
//         straddled == 0: tiles [T/2][K / group][2][16], where group = 2^group_log2 divides both K and the block, so
//         that a group lies in one row and in one block. straddled == 1: the flat blocks of the format.
struct Gemm {
    const void* x;
    const uint32_t* w;
    const void* scales;
    const float* nested_code;
    const float* nested_scale;
    const void* bias;  // or null
    void* y;
    uint8_t* scratch;  // rooflens_scratch_bytes bytes
    int64_t M, N, K;
    float code[16];
    float nested_offset;
    int32_t group_log2;
    int32_t block_log2;
    int32_t nested;
    int32_t straddled;
    int32_t dtype;
    int32_t kernel;
    int32_t isa;
    int32_t threads;
};

// Flat dequantization: out[i] = round((code[nibble i] - zero[j]) * absmax[j]), j = i >> group_log2, packed as bitsandbytes
// packs it.
struct Dequantize {
    const uint8_t* packed;
    const float* absmax;
    const float* zero;  // or null: 0
    void* out;
    int64_t numel;
    float code[16];
    int32_t group_log2;
    int32_t dtype;
    int32_t streaming;  // 1: stores that bypass the caches (out aligned to 64 bytes)
    int32_t isa;
    int32_t threads;
};

// One probe of the memory: `passes` sweeps over `bytes` bytes that read `from` (`to` is null), fill `to` (`from` is null) or
// copy. Each thread keeps to one contiguous share for all passes.
struct Stream {
    const uint8_t* from;
    uint8_t* to;
    int64_t bytes;
    int64_t passes;
    uint64_t sum;  // out: what was read, added up
    int32_t streaming;  // 1: stores that bypass the caches
    int32_t isa;
    int32_t threads;
};

// Calls body(context, task, worker) for every task in 0 .. tasks-1, worker < threads; returns when all are done. Tasks
// start in order: when task i is given to a worker, every task before it has been given to one.
using Body = void (*)(void* context, int64_t task, int worker);
void parallel_for(int threads, int64_t tasks, Body body, void* context);

// What one instruction set provides; each table is the only symbol that its object exports.
struct GemmFunctions {
    void (*gemm)(const Gemm&);
    int64_t (*scratch_bytes)(const Gemm&);
};
struct MemoryFunctions {
    void (*dequantize)(const Dequantize&, int64_t begin, int64_t end);  // begin is the first element of a block
    uint64_t (*read)(const uint8_t* data, int64_t bytes);
    // `to` is aligned to 64 bytes and `bytes` a multiple of 64
    void (*fill)(uint8_t* to, int64_t bytes, uint64_t value, int streaming);  // every 64-bit word gets `value`
    void (*copy)(uint8_t* to, const uint8_t* from, int64_t bytes, int streaming);
};

}  // namespace rooflens
