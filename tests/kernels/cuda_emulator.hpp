// As much of CUDA as the kernels in CUDA C++ use, on a CPU: the threads of a block take turns, each on a stack of
// its own, and one that waits lets the others run. What TMA copies to shared memory is there when the copy is issued. The
// fragments of mma and the permutation of 128-byte rows follow the PTX ISA ("Matrix Fragments for mma.m16n8k16", "Swizzling Modes").

#include <ucontext.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <vector>

using std::min;

typedef unsigned int u32;
typedef unsigned long long u64;
typedef unsigned short u16;
typedef unsigned char u8;

#define __device__
#define __global__
#define __shared__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __grid_constant__
#define __align__(bytes) alignas(bytes)

struct uint2 { u32 x, y; };
struct uint4 { u32 x, y, z, w; };
struct float2 { float x, y; };
struct float4 { float x, y, z, w; };
inline uint2 make_uint2(u32 x, u32 y) { return {x, y}; }
inline uint4 make_uint4(u32 x, u32 y, u32 z, u32 w) { return {x, y, z, w}; }
inline float2 make_float2(float x, float y) { return {x, y}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }

struct TensorMap {
  const char* data;
  long long element, rank, sizes[3], strides[3], box[3];
};

struct Index { int x; };
static Index threadIdx, blockIdx, gridDim;
constexpr u32 MEMORY = 1024, MEMORY_BYTES = 227 << 10;
alignas(1024) char memory[MEMORY_BYTES];

struct Meeting { int waiting, wanted; long long held; };
static ucontext_t scheduler;
static std::vector<ucontext_t> threads;
static std::vector<char> finished;
enum { WORKING = 1, STARTED };
static Meeting block, some[STARTED + 1], warps[64];
static Meeting& workers = some[WORKING];
static std::function<void()> kernel;

static void wait_for_others() {
  const int me = threadIdx.x;
  swapcontext(&threads[me], &scheduler);
  threadIdx.x = me;
}

static void come(Meeting& meeting, int wanted) {
  if (++meeting.waiting == wanted) meeting.waiting = 0, ++meeting.held;
}
static void meet(Meeting& meeting, int wanted) {
  const long long before = meeting.held;
  come(meeting, wanted);
  while (meeting.held == before) wait_for_others();
}

inline void __syncthreads() { meet(block, (int)threads.size()); }
inline void __syncwarp() { meet(warps[threadIdx.x / 32], 32); }
// One warp, another one in each block, goes on late: the others run ahead as far as the kernel lets them.
template <int ID, int THREADS>
void meet() {
  static_assert(ID <= STARTED, "no such barrier");
  meet(some[ID], THREADS);
  for (int i = 0; i < 120 && threadIdx.x / 32 == blockIdx.x * 5 % 8; ++i) wait_for_others();
}
template <int ID, int THREADS>
void arrive() { come(some[ID], THREADS); }
static std::vector<int> registers;
template <int EACH>
void take_registers() {
  static_assert(EACH % 8 == 0 && EACH >= 24 && EACH <= 256, "setmaxnreg takes no other number");
  registers[threadIdx.x] = EACH;
  const int threads = (int)registers.size(), given = (1 << 16) / threads / 8 * 8;  // at the launch, of one block per SM
  int all = 0;
  for (int each : registers) all += each;
  if (all > given * threads) abort();  // it would wait for ever
}
template <int EACH>
void give_up_registers() {
  take_registers<EACH>();
}
inline void __trap() { abort(); }
inline void prefetch(const void*) {}
inline void prefetch_map(const TensorMap*) {}
inline void all_copied() {}

inline void add(float (&sums)[4], const float4& more) {
  sums[0] += more.x, sums[1] += more.y, sums[2] += more.z, sums[3] += more.w;
}
inline int of_warp(int value) { return value; }
static int exchanged[64][32];
inline int __shfl_sync(u32, int value, int from) {
  int(&all)[32] = exchanged[threadIdx.x / 32];
  all[threadIdx.x % 32] = value;
  __syncwarp();
  const int result = all[from];
  __syncwarp();
  return result;
}
inline bool __any_sync(u32 lanes, bool value) {
  bool any = false;
  for (int lane = 0; lane < 32; ++lane) any |= __shfl_sync(lanes, value, lane);
  return any;
}
inline int __shfl_up_sync(u32 lanes, int value, int by) {
  const int lane = threadIdx.x % 32;
  return __shfl_sync(lanes, value, lane < by ? lane : lane - by);
}
struct Range { const char *first, *end; };
static std::vector<Range> tensors;
extern "C" void add_tensor(const char* first, long long bytes) { tensors.push_back({first, first + bytes}); }
static void check_inside(const void* at, long long bytes) {
  for (const Range& one : tensors) if ((const char*)at >= one.first && (const char*)at + bytes <= one.end) return;
  abort();
}
// What blocks leave for others. Blocks run in their order, so that it is there, but words arrive in an order of their own. What
// is there before must not pass for it: the lowest bits of its words are others, and their values wrong.
static long long stored;  // bytes of parts
static std::map<const float4*, int> loaded;
inline void store_words(float4* at, const float4& words) {
  check_inside(at, sizeof words);
  for (int i = 0; i < 4; ++i) if (!((((const u32*)at)[i] ^ ((const u32*)&words)[i]) & 1)) abort();
  *at = words, loaded[at] = 0, stored += sizeof words;
}
inline float4 load_words(const float4* at) {
  check_inside(at, sizeof *at);
  float4 words = *at;
  const int before = loaded.at(at)++;
  if (before < 4) ((u32*)&words)[before] ^= 0x7fc00001;
  return words;
}
template <class Value>
Value __ldg(const Value* at) {
  check_inside(at, sizeof *at);
  return *at;
}
inline float __uint_as_float(u32 bits) { float value; memcpy(&value, &bits, 4); return value; }
inline u32 __float_as_uint(float value) { u32 bits; memcpy(&bits, &value, 4); return bits; }

inline u32 shared_address(const void* at) { return (u32)((const char*)at - memory) + MEMORY; }
inline u32 look_up(u32 offset) { return *(const u32*)(memory + offset); }
inline u32 largest(u32 a, u32 b) { return std::max(a, b); }
inline u32 or_xor(u32 bits, u32 a, u32 b) { return bits | (a ^ b); }
inline u32 __umulhi(u32 a, u32 b) { return (u64)a * b >> 32; }
inline u32 permute(u32 a, u32 b, u32 selector) {
  const u64 bytes = (u64)b << 32 | a;
  u32 result = 0;
  for (int i = 0; i < 4; ++i) result |= (u32)(bytes >> 8 * (selector >> 4 * i & 7) & 255) << 8 * i;
  return result;
}

struct Barrier { u32 wanted, arrived, phase; long long bytes; };
static Barrier barriers[MEMORY_BYTES / 8];
static Barrier& barrier(u32 address) { return barriers[(address - MEMORY) / 8]; }
static void advance(Barrier& one) {
  if (one.arrived == one.wanted && !one.bytes) one.arrived = 0, one.phase ^= 1;
}
inline void barrier_init(u32 at, u32 count) { barrier(at) = {count, 0, 0, 0}; }
inline void barriers_ready() {}
// Goes on when all others have had a turn, whichever way round they take turns.
inline void barrier_arrive(u32 at) {
  ++barrier(at).arrived, advance(barrier(at));
  for (int i = 0; i < 2; ++i) wait_for_others();
}
// Copies follow at once, so that a thread that still reads what they overwrite sees the new bytes.
inline void barrier_expect(u32 at, u32 bytes) { barrier(at).bytes += bytes, ++barrier(at).arrived, advance(barrier(at)); }
inline void barrier_wait(u32 at, u32 parity) {
  if (!barrier(at).wanted) abort();  // not initialised
  while (barrier(at).phase == parity) wait_for_others();
}
static void copied(u32 at, long long bytes) { barrier(at).bytes -= bytes, advance(barrier(at)); }

static void copy(u32 to, const TensorMap& map, const long long (&from)[3], u32 ready) {
  if ((to - MEMORY) % 1024) abort();  // the permutation of rows repeats
  long long bytes = 0;
  for (long long z = 0; z < map.box[2]; ++z)
    for (long long y = 0; y < map.box[1]; ++y)
      for (long long x = 0; x < map.box[0] * map.element; ++x, ++bytes) {
        const long long at[3] = {from[0] + x / map.element, from[1] + y, from[2] + z};
        bool inside = true;
        for (int i = 0; i < 3; ++i) inside &= at[i] >= 0 && at[i] < map.sizes[i];
        long long place = to - MEMORY + bytes;
        place ^= place / 128 % (map.box[0] * map.element == 64 ? 4 : 8) * 16;
        const char* value = map.data + at[0] * map.element + x % map.element + at[1] * map.strides[1] + at[2] * map.strides[2];
        memory[place] = inside ? *value : 0;
      }
  copied(ready, bytes);
}
inline u64 read_once() { return 0; }
inline void copy_box(u32 to, const TensorMap* map, int c0, int c1, u32 ready, u64) { copy(to, *map, {c0, c1, 0}, ready); }
inline void copy_box(u32 to, const TensorMap* map, int c0, int c1, u32 ready) { copy(to, *map, {c0, c1, 0}, ready); }
inline void copy_box(u32 to, const TensorMap* map, int c0, int c1, int c2, u32 ready) { copy(to, *map, {c0, c1, c2}, ready); }
inline void copy_bytes(u32 to, const void* from, u32 bytes, u32 ready, u64 = 0) {
  if (to % 16 || (u64)from % 16 || bytes % 16) abort();  // PTX ISA, "cp.async.bulk"
  check_inside(from, bytes);
  memcpy(memory + (to - MEMORY), from, bytes);
  copied(ready, bytes);
}
inline void copy_word(u32 to, const void* from) {
  if (to % 4 || (u64)from % 4) abort();
  check_inside(from, 4);
  memcpy(memory + (to - MEMORY), from, 4);
}
inline void arrive_when_copied(u32 at) { barrier_arrive(at); }

// A box may be read from its copy on until it has been waited for: nobody changes it meanwhile.
static bool fenced[1024];  // what this thread wrote may be copied
inline void written_for_copies() { fenced[threadIdx.x] = true; }
struct Store { const TensorMap* map; int c0, c1; u32 from; std::vector<char> issued; };
static std::vector<Store> stores[1024];
inline void store_box(const TensorMap* map, int c0, int c1, u32 from) {
  if ((from - MEMORY) % 1024) abort();
  bool* const group = fenced + threadIdx.x / 128 * 128;  // four warps write a box
  if (std::count(group, group + 128, true) != 128) abort();
  std::fill(group, group + 128, false);
  const char* at = memory + (from - MEMORY);
  stores[threadIdx.x].push_back({map, c0, c1, from, {at, at + map->box[1] * 128}});
}
template <int LATER>
void boxes_stored() {
  auto& mine = stores[threadIdx.x];
  for (; mine.size() > LATER; mine.erase(mine.begin())) {
    for (int i = 0; i < 3; ++i) wait_for_others();
    const auto& [map, c0, c1, from, issued] = mine[0];
    if (memcmp(issued.data(), memory + (from - MEMORY), issued.size())) abort();
    for (long long y = 0; y < map->box[1] && c1 + y < map->sizes[1]; ++y)
      for (long long x = 0; x < map->box[0] && c0 + x < map->sizes[0]; ++x) {
        const long long place = from - MEMORY + y * 128 + x * map->element;
        memcpy((char*)map->data + (c0 + x) * map->element + (c1 + y) * map->strides[1],
               memory + (place ^ place / 128 % 8 * 16), map->element);
      }
  }
}

#if FP16
inline float widened(u16 bits) { _Float16 half; memcpy(&half, &bits, 2); return half; }
inline u16 rounded(float value) { const _Float16 half = value; u16 bits; memcpy(&bits, &half, 2); return bits; }
#else
inline float widened(u16 bits) { const u32 word = (u32)bits << 16; float value; memcpy(&value, &word, 4); return value; }
inline u16 rounded(float value) { u32 word; memcpy(&word, &value, 4); return (word + 0x7fff + (word >> 16 & 1)) >> 16; }
#endif

inline u32 rounded_pair(float low, float high) { return (u32)rounded(high) << 16 | rounded(low); }
inline u32 rounded_pair(float value) { return rounded_pair(value, value); }

template <class Operation>
static u32 each_half(u32 a, u32 b, Operation operation) {
  u32 result = 0;
  for (int shift = 0; shift < 32; shift += 16)
    result |= (u32)rounded(operation(widened((u16)(a >> shift)), widened((u16)(b >> shift)))) << shift;
  return result;
}
inline u32 multiply_pairs(u32 a, u32 b) { return each_half(a, b, [](float x, float y) { return x * y; }); }
inline u32 subtract_pairs(u32 a, u32 b) { return each_half(a, b, [](float x, float y) { return x - y; }); }

static u32 fragments[64][32][6];
inline void multiply(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1, const float (&c)[4]) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  u32(&all)[32][6] = fragments[warp];
  memcpy(all[lane], a, 16);
  all[lane][4] = b0, all[lane][5] = b1;
  __syncwarp();
  float result[4];
  for (int i = 0; i < 4; ++i) {
    const int row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2;
    result[i] = c[i];
    for (int k = 0; k < 16; ++k) {
      const int t = k % 8 / 2, shift = k % 2 * 16;
      const u32 left = all[row % 8 * 4 + t][row / 8 + k / 8 * 2], right = all[column * 4 + t][4 + k / 8];
      result[i] += widened((u16)(left >> shift)) * widened((u16)(right >> shift));
    }
  }
  __syncwarp();
  memcpy(d, result, 16);
}

// BITS of mantissa: 3 is e4m3, 2 is e5m2, which has infinities.
template <int BITS>
float fp8(u8 byte) {
  static const std::vector<float> values = [] {
    std::vector<float> all(256);
    const int hidden = 1 << BITS, least = BITS == 3 ? -9 : -16;
    for (int i = 0; i < 128; ++i) {
      const int exponent = i >> BITS, mantissa = i % hidden;
      all[i] = exponent ? ldexpf(hidden + mantissa, exponent - 1 + least) : ldexpf(mantissa, least);
      if (BITS == 3 ? i == 127 : i > 124) all[i] = NAN;
      if (BITS == 2 && i == 124) all[i] = INFINITY;
      all[i + 128] = -all[i];
    }
    return all;
  }();
  return values[byte];
}
static float e4m3(u8 byte) { return fp8<3>(byte); }
#ifndef A_E5M2
#define A_E5M2 0
#endif
#ifndef B_E5M2
#define B_E5M2 0
#endif
#ifdef TILES
// A product may read operands until it has been waited for, and writes results by then: both happen last, after others have run
// ahead (PTX ISA, "Register Fragments for wgmma.mma_async.m64nNk32").
struct Pending { float (*d)[4]; u32 at_a, at_b; int depth; };
static std::vector<Pending> pending[1024];
static void begin(float (&d)[TILES][4], u32 at_a, u32 at_b, int depth) {
  for (auto& one : d) for (float& value : one) value = NAN;
  pending[threadIdx.x].push_back({d, at_a, at_b, depth});
}
inline u64 rows_of_128_bytes(u32 at) { return at; }
inline u64 further(u64 rows, u32 bytes) { return rows + bytes; }
inline void multiply_block(float (&d)[TILES][4], u64 a_rows, u64 b_rows) { begin(d, (u32)a_rows, (u32)b_rows, 32); }
inline void multiply_stage(float (&d)[TILES][4], u32 at_a, u32 at_b) { begin(d, at_a, at_b, 128); }
template <int LATER>
void multiplied(float (&)[TILES][4]) {
  auto octet = [](u32 at, int row, int k) {
    const u32 place = at - MEMORY + row * 128 + k;
    return (u8)memory[place ^ place / 128 % 8 * 16];
  };
  const int warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32;
  auto& mine = pending[threadIdx.x];
  for (; mine.size() > LATER; mine.erase(mine.begin())) {
    for (int i = 0; i < 3; ++i) wait_for_others();
    const Pending one = mine[0];
    for (int n = 0; n < TILES; ++n)
      for (int i = 0; i < 4; ++i) {
        const int a = warp * 16 + lane / 4 + i / 2 * 8, b = n * 8 + lane % 4 * 2 + i % 2;
        one.d[n][i] = 0;
        for (int k = 0; k < one.depth; ++k)
          one.d[n][i] += fp8<A_E5M2 ? 2 : 3>(octet(one.at_a, a, k)) * fp8<B_E5M2 ? 2 : 3>(octet(one.at_b, b, k));
      }
  }
  __syncwarp();  // the lanes of a warp wait together (".sync.aligned")
}
#endif

// Of 16-bit operands, A in registers: both are read when the product has been waited for and others have run ahead, as it may
// read them until then. Sums are there when no product is left.
struct Product { float (*d)[4]; const u32 (*a)[4]; u32 at_b; bool adds; };
static std::vector<Product> products[1024];
static std::vector<float> sums_of[1024];
template <int N>
void multiply_stage(float (&d)[N][4], const u32 (&a)[4][4], u32 at_b, bool adds) {
  auto& sums = sums_of[threadIdx.x];
  if (products[threadIdx.x].empty()) sums.assign(&d[0][0], &d[0][0] + 4 * N);
  products[threadIdx.x].push_back({d, a, at_b, adds});
  for (auto& one : d) for (float& value : one) value = NAN;
}
template <int LATER, class Used>
void multiplied(Used&) {
  const int thread = threadIdx.x, lane = thread % 32;
  auto& mine = products[thread];
  auto& sums = sums_of[thread];
  while (mine.size() > LATER) {
    const Product one = mine[0];
    if (!one.adds) std::fill(sums.begin(), sums.end(), 0.f);
    for (int i = 0; i < 3; ++i) wait_for_others();
    __syncwarp();
    for (int i = 0; i < (int)sums.size(); ++i)
      for (int k = 0; k < 64; ++k) {
        const int row = i / 4 * 8 + lane % 4 * 2 + i % 2, place = one.at_b - MEMORY + row * 128 + k * 2;
        const u32 pair = products[thread / 4 * 4 + k % 8 / 2][0].a[k / 16][i % 4 / 2 + k % 16 / 8 * 2];
        const u16 b = *(const u16*)(memory + (place ^ place / 128 % 8 * 16));
        sums[i] += widened((u16)(pair >> k % 2 * 16)) * widened(b);
      }
    __syncwarp();
    mine.erase(mine.begin());
    if (mine.empty()) std::copy(sums.begin(), sums.end(), &one.d[0][0]);
  }
}
#if FP16
inline u32 e4m3_pair(u32 two) {
  u32 result = 0;
  for (int i = 0; i < 2; ++i) result |= (u32)rounded(e4m3((u8)(two >> 8 * i))) << 16 * i;
  return result;
}
#endif

static void run_thread() {
  kernel();
  finished[threadIdx.x] = 1;
  swapcontext(&threads[threadIdx.x], &scheduler);
}

static void launch(int grid, int count, u32 shared_bytes, const std::function<void()>& function) {
  std::vector<std::vector<char>> stacks(count, std::vector<char>(1 << 16));
  kernel = function, gridDim.x = grid, threads.resize(count), stored = 0;
  for (blockIdx.x = 0; blockIdx.x < grid; ++blockIdx.x) {
    memset(memory, 0xff, sizeof memory);  // NaN in all types
    memset(barriers, 0, sizeof barriers);
    block = Meeting{};
    for (Meeting& meeting : some) meeting = Meeting{};
    for (Meeting& warp : warps) warp = Meeting{};
    finished.assign(count, 0), registers.assign(count, 0);
    for (int i = 0; i < count; ++i) {
      getcontext(&threads[i]);
      threads[i].uc_stack.ss_sp = stacks[i].data(), threads[i].uc_stack.ss_size = stacks[i].size();
      makecontext(&threads[i], run_thread, 0);
    }
    for (int left = count, round = 0; left; ++round) {
      left = 0;
      if (round == 1 << 18) abort();  // all wait for each other
      for (int j = 0; j < count; ++j) {
        const int i = round % 2 ? count - 1 - j : j;
        if (!finished[i]) ++left, threadIdx.x = i, swapcontext(&scheduler, &threads[i]);
      }
    }
    for (u32 i = shared_bytes; i < MEMORY_BYTES; ++i)
      if (memory[i] != (char)0xff) abort();  // more than the launch asks for
  }
}
