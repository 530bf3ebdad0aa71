// The C interface of the CPU library: choice of the instruction set, repacking, and the thread team.
#include <dlfcn.h>

#include <atomic>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <thread>
#include <vector>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "cpu_api.hpp"

namespace rooflens {

extern const GemmFunctions gemm_portable;
extern const MemoryFunctions memory_portable;
#if defined(__x86_64__)
extern const GemmFunctions gemm_avx2, gemm_avx512, gemm_avx512bf16;
extern const MemoryFunctions memory_avx2, memory_avx512;
#endif

namespace {

// ---- thread team --------------------------------------------------------------------------------------------------
// The team is that of the OpenMP runtime which is in the process already (torch's), found by name at run time. A
// library linked to libgomp would share it only where torch's copy kept that file name, and load a second elsewhere.
// Idle workers of a runtime spin for a while after each region, so a second team competes with them for the cores right
// after every torch GEMM. Measured at M = 1, N = K = 4096 on two cores (lower quartile): 0.088 ms back to back and
// 0.27 ms right after a torch GEMM on the shared team; 0.147 and 0.34 ms on threads of our own, which have to be woken.
// Those remain for a process without OpenMP, and so the library compiles without it.

using GompParallel = void (*)(void (*)(void*), void*, unsigned, unsigned);

GompParallel gomp_parallel() {
    static const GompParallel found = reinterpret_cast<GompParallel>(dlsym(RTLD_DEFAULT, "GOMP_parallel"));
    return found;
}

struct Region {
    Body body;
    void* context;
    int64_t tasks;
    std::atomic<int64_t> next_task{0};
    std::atomic<int> next_worker{0};
};

// Tasks are taken one by one: a core that the machine gave to somebody else does not hold up the others' share.
void work(void* pointer) {
    Region& region = *static_cast<Region*>(pointer);
    const int worker = region.next_worker.fetch_add(1, std::memory_order_relaxed);
    for (;;) {
        const int64_t task = region.next_task.fetch_add(1, std::memory_order_relaxed);
        if (task >= region.tasks) return;
        region.body(region.context, task, worker);
    }
}

class Pool {  // sleeping threads, woken per region; grows to the largest team asked for
  public:
    void run(Region& region, int threads) {
        const std::lock_guard<std::mutex> one_region(callers_);
        {
            const std::lock_guard<std::mutex> lock(mutex_);
            while (static_cast<int>(threads_.size()) < threads - 1) {
                const int index = static_cast<int>(threads_.size());
                threads_.emplace_back([this, index, seen = generation_] { serve(index, seen); });
            }
            region_ = &region;
            helpers_ = running_ = threads - 1;
            ++generation_;
        }
        wake_.notify_all();
        work(&region);
        std::unique_lock<std::mutex> lock(mutex_);
        done_.wait(lock, [this] { return running_ == 0; });
    }

  private:
    void serve(int index, uint64_t seen) {
        std::unique_lock<std::mutex> lock(mutex_);
        for (;;) {
            wake_.wait(lock, [&] { return generation_ != seen; });
            seen = generation_;
            if (index >= helpers_) continue;
            Region* region = region_;
            lock.unlock();
            work(region);
            lock.lock();
            if (--running_ == 0) done_.notify_one();
        }
    }

    std::mutex callers_, mutex_;
    std::condition_variable wake_, done_;
    std::vector<std::thread> threads_;
    Region* region_ = nullptr;
    int helpers_ = 0, running_ = 0;
    uint64_t generation_ = 0;
};

Pool& pool() {
    static Pool* const all = new Pool;  // never destroyed: its threads sleep until the process ends
    return *all;
}

const GemmFunctions& gemm_functions(const Gemm& g) {
#if defined(__x86_64__)
    if (g.isa == AVX512_BF16 && g.dtype == BF16) return gemm_avx512bf16;
    if (g.isa >= AVX512) return gemm_avx512;
    if (g.isa == AVX2) return gemm_avx2;
#endif
    (void)g;
    return gemm_portable;
}

const MemoryFunctions& memory_functions(int isa) {
#if defined(__x86_64__)
    if (isa >= AVX512) return memory_avx512;
    if (isa == AVX2) return memory_avx2;
#endif
    (void)isa;
    return memory_portable;
}

}  // namespace

bool force_pool = false;  // for measuring and testing the threads of our own

void parallel_for(int threads, int64_t tasks, Body body, void* context) {
    Region region{body, context, tasks};
    const int team = static_cast<int>(tasks < threads ? tasks : threads);
    if (team <= 1) work(&region);
    else if (gomp_parallel() && !force_pool) gomp_parallel()(work, &region, static_cast<unsigned>(team), 0);
    else pool().run(region, team);
}

}  // namespace rooflens

using namespace rooflens;

#define API __attribute__((visibility("default")))

extern "C" {

// 1 when this CPU and its operating system can run the instruction set
API int rooflens_has_isa(int isa) {
#if defined(__x86_64__)
    unsigned a, b, c = 0, d;
    const bool f16c = __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
    const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && f16c;
    const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
    if (isa == AVX2) return avx2;
    if (isa == AVX512) return avx512;
    if (isa == AVX512_BF16) return avx512 && __builtin_cpu_supports("avx512bf16");
#endif
    return isa == PORTABLE;
}

// 1 when regions run on an OpenMP runtime of this process, 0 when on threads of our own
API int rooflens_uses_openmp() { return gomp_parallel() && !force_pool; }
API void rooflens_force_pool(int on) { force_pool = on; }

API int64_t rooflens_scratch_bytes(const Gemm* g) { return gemm_functions(*g).scratch_bytes(*g); }

API void rooflens_gemm(const Gemm* g) { gemm_functions(*g).gemm(*g); }

// bitsandbytes' packing (flat, even element in the high nibble) -> the tiles of cpu_api.hpp, zero beyond N and K
API void rooflens_pack(const uint8_t* packed, uint32_t* tiles, int64_t N, int64_t K, int threads) {
    struct Context { const uint8_t* packed; uint32_t* tiles; int64_t N, K; } context{packed, tiles, N, K};
    auto body = [](void* pointer, int64_t pair, int) {
        const Context& c = *static_cast<Context*>(pointer);
        constexpr int64_t LANES = PAIR * ROWS;
        const int64_t chunks = (c.K + CHUNK - 1) / CHUNK;
        uint32_t* to = c.tiles + pair * chunks * LANES;
        memset(to, 0, chunks * LANES * sizeof(uint32_t));
        for (int64_t r = 0; r < LANES && pair * LANES + r < c.N; ++r) {
            const int64_t row = (pair * LANES + r) * c.K;
            for (int64_t k = 0; k < c.K; ++k) {
                const uint32_t nibble = c.packed[(row + k) / 2] >> ((row + k) % 2 ? 0 : 4) & 15u;
                to[k / CHUNK * LANES + r] |= nibble << (4 * (k % CHUNK / 2) + 16 * (k % 2));
            }
        }
    };
    parallel_for(threads, tiles_of(N) / PAIR, body, &context);
}

API void rooflens_dequantize(const Dequantize* d) {
    constexpr int64_t TASK = 1 << 17;  // weights; a multiple of every block size
    auto body = [](void* pointer, int64_t task, int) {
        const Dequantize& c = *static_cast<const Dequantize*>(pointer);
        const int64_t begin = task * TASK, end = begin + TASK;
        memory_functions(c.isa).dequantize(c, begin, end < c.numel ? end : c.numel);
    };
    parallel_for(d->threads, (d->numel + TASK - 1) / TASK, body, const_cast<Dequantize*>(d));
}

// absmax[i] = code[q[i]] * scale[i / 256] + offset, rounded after the product and after the sum
API void rooflens_rebuild_absmax(const uint8_t* q, const float* scale, const float* code, float offset, float* absmax,
                             int64_t blocks, int threads) {
    struct Context { const uint8_t* q; const float *scale, *code; float offset; float* absmax; int64_t blocks; };
    Context context{q, scale, code, offset, absmax, blocks};
    constexpr int64_t TASK = 1 << 16;
    auto body = [](void* pointer, int64_t task, int) {
        const Context& c = *static_cast<Context*>(pointer);
        for (int64_t i = task * TASK; i < c.blocks && i < (task + 1) * TASK; ++i) {
            c.absmax[i] = c.code[c.q[i]] * c.scale[i / NESTED_BLOCK] + c.offset;
        }
    };
    parallel_for(threads, (blocks + TASK - 1) / TASK, body, &context);
}

// Sweeps as `Stream` says. A share of the threads is one task, so that it stays with one thread for all passes.
API void rooflens_stream(Stream* stream) {
    constexpr uint64_t FILLING = 0x9e3779b97f4a7c15u;  // not zero, which some machines write faster
    struct Context { Stream* stream; int64_t share; std::atomic<uint64_t> sum; };
    const int64_t share = (stream->bytes / stream->threads + 4095) / 4096 * 4096;
    Context context{stream, share ? share : 4096, {0}};
    auto body = [](void* pointer, int64_t task, int) {
        Context& c = *static_cast<Context*>(pointer);
        const Stream& s = *c.stream;
        const MemoryFunctions& memory = memory_functions(s.isa);
        const int64_t begin = task * c.share, count = (begin + c.share < s.bytes ? begin + c.share : s.bytes) - begin;
        for (int64_t pass = 0; pass < s.passes; ++pass) {
            if (!s.to) c.sum += memory.read(s.from + begin, count);
            else if (!s.from) memory.fill(s.to + begin, count, static_cast<uint64_t>(pass + 1) * FILLING, s.streaming);
            else memory.copy(s.to + begin, s.from + begin, count, s.streaming);
        }
    };
    parallel_for(stream->threads, (stream->bytes + context.share - 1) / context.share, body, &context);
    stream->sum = context.sum;
}

// Does nothing: what a call into the library costs
API void rooflens_nothing(const Stream*) {}

}  // extern "C"
