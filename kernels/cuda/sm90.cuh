// What the kernels need of sm90 beyond CUDA C++: one function per PTX instruction.

typedef unsigned int u32;
typedef unsigned long long u64;
typedef unsigned short u16;
typedef unsigned char u8;

struct alignas(64) TensorMap {
  u64 opaque[16];
};

__device__ __forceinline__ u32 shared_address(const void* at) { return (u32)__cvta_generic_to_shared(at); }

// Of a value that all lanes have: lets the compiler keep it, and what follows from it, in registers of the warp.
__device__ __forceinline__ int of_warp(int value) { return __shfl_sync(0xffffffffu, value, 0); }

__device__ __forceinline__ u32 permute(u32 a, u32 b, u32 selector) { return __byte_perm(a, b, selector); }

// bits | (a ^ b), in one instruction also where only one bit of the result is used.
__device__ __forceinline__ u32 or_xor(u32 bits, u32 a, u32 b) {
  u32 result;
  asm("lop3.b32 %0, %1, %2, %3, 0xf6;" : "=r"(result) : "r"(bits), "r"(a), "r"(b));
  return result;
}

// In one instruction, where the compiler would use two.
__device__ __forceinline__ u32 largest(u32 a, u32 b) {
  u32 result;
  asm("max.u32 %0, %1, %2;" : "=r"(result) : "r"(a), "r"(b));
  return result;
}

// A constant base is part of the instruction; shared memory of a block begins after the 1 KB that the system takes.
constexpr u32 MEMORY = 1024;
__device__ __forceinline__ u32 look_up(u32 offset) {
  u32 value;
  asm("ld.shared.u32 %0, [%1 + %2];" : "=r"(value) : "r"(offset), "n"(MEMORY));
  return value;
}

__device__ __forceinline__ void barrier_init(u32 at, u32 count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(at), "r"(count));
}

__device__ __forceinline__ void barriers_ready() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }

__device__ __forceinline__ void barrier_expect(u32 at, u32 bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(at), "r"(bytes) : "memory");
}

__device__ __forceinline__ void barrier_arrive(u32 at) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(at) : "memory");
}

__device__ __forceinline__ void barrier_wait(u32 at, u32 parity) {
  asm volatile(
      "{\n.reg .pred p;\nAGAIN:\nmbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n@p bra DONE;\nbra AGAIN;\nDONE:\n}"
      ::"r"(at), "r"(parity)
      : "memory");
}

__device__ __forceinline__ u64 read_once() {
  u64 policy;
  asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}

__device__ __forceinline__ void copy_box(u32 to, const TensorMap* map, int c0, int c1, u32 barrier, u64 policy) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1, {%2, %3}], "
      "[%4], %5;" ::"r"(to), "l"(map), "r"(c0), "r"(c1), "r"(barrier), "l"(policy)
      : "memory");
}

__device__ __forceinline__ void copy_box(u32 to, const TensorMap* map, int c0, int c1, int c2, u32 barrier) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4}], [%5];" ::"r"(
          to),
      "l"(map), "r"(c0), "r"(c1), "r"(c2), "r"(barrier)
      : "memory");
}

// A box in two dimensions that other blocks read too.
__device__ __forceinline__ void copy_box(u32 to, const TensorMap* map, int c0, int c1, u32 barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(to),
      "l"(map), "r"(c0), "r"(c1), "r"(barrier)
      : "memory");
}

__device__ __forceinline__ void copy_bytes(u32 to, const void* from, u32 bytes, u32 barrier, u64 policy) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, [%3], %4;" ::"r"(
          to),
      "l"(from), "r"(bytes), "r"(barrier), "l"(policy)
      : "memory");
}

// Bytes that other blocks read too.
__device__ __forceinline__ void copy_bytes(u32 to, const void* from, u32 bytes, u32 barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to), "l"(from),
               "r"(bytes), "r"(barrier)
               : "memory");
}

// Copies a box from shared memory, in which TMA expects rows of 128 bytes permuted as it writes them. `boxes_stored` waits until
// all boxes of this thread but the last LATER have been read. Other threads meet after `written_for_copies`, before the copy.
__device__ __forceinline__ void store_box(const TensorMap* map, int c0, int c1, u32 from) {
  asm volatile(
      "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];\ncp.async.bulk.commit_group;" ::"l"(map),
      "r"(c0), "r"(c1), "r"(from)
      : "memory");
}

template <int LATER>
__device__ __forceinline__ void boxes_stored() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(LATER) : "memory");
}

__device__ __forceinline__ void written_for_copies() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// Four bytes; arrive_when_copied arrives at a barrier once those of this thread are there.
__device__ __forceinline__ void copy_word(u32 to, const void* from) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(to), "l"(from) : "memory");
}

__device__ __forceinline__ void arrive_when_copied(u32 barrier) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(barrier) : "memory");
}

__device__ __forceinline__ void prefetch_map(const TensorMap* map) { asm volatile("prefetch.tensormap [%0];" ::"l"(map)); }

__device__ __forceinline__ void prefetch(const void* at) { asm volatile("prefetch.global.L2 [%0];" ::"l"(at)); }

// Words that other blocks load while this one stores them: each may come before or after the others.
__device__ __forceinline__ void store_words(float4* at, const float4& words) {
  asm volatile("st.relaxed.gpu.global.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(at), "f"(words.x), "f"(words.y), "f"(words.z),
               "f"(words.w)
               : "memory");
}

__device__ __forceinline__ float4 load_words(const float4* at) {
  float4 words;
  asm volatile("ld.relaxed.gpu.global.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(words.x), "=f"(words.y), "=f"(words.z), "=f"(words.w)
               : "l"(at)
               : "memory");
  return words;
}

__device__ __forceinline__ void all_copied() { asm volatile("cp.async.wait_all;" ::: "memory"); }

#if FP16
#define ELEMENT "f16"
#else
#define ELEMENT "bf16"
#endif

__device__ __forceinline__ void multiply(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1, const float (&c)[4]) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32." ELEMENT "." ELEMENT
      ".f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%11,%12,%13};"
      : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "f"(c[0]), "f"(c[1]), "f"(c[2]), "f"(c[3]));
}

__device__ __forceinline__ void add(float (&sums)[4], const float4& more) {
  sums[0] += more.x, sums[1] += more.y, sums[2] += more.z, sums[3] += more.w;
}

// Two elements at a time.
__device__ __forceinline__ u32 multiply_pairs(u32 a, u32 b) {
  u32 product;
  asm("mul.rn." ELEMENT "x2 %0, %1, %2;" : "=r"(product) : "r"(a), "r"(b));
  return product;
}

__device__ __forceinline__ u32 subtract_pairs(u32 a, u32 b) {
  u32 difference;
  asm("sub.rn." ELEMENT "x2 %0, %1, %2;" : "=r"(difference) : "r"(a), "r"(b));
  return difference;
}

#if FP16
__device__ __forceinline__ u32 e4m3_pair(u32 two) {
  u32 pair;
  asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(pair) : "h"((u16)two));
  return pair;
}
#endif

__device__ __forceinline__ u16 rounded(float value) {
  u16 bits;
  asm("cvt.rn." ELEMENT ".f32 %0, %1;" : "=h"(bits) : "f"(value));
  return bits;
}

__device__ __forceinline__ u32 rounded_pair(float low, float high) {
  u32 pair;
  asm("cvt.rn." ELEMENT "x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
}

__device__ __forceinline__ u32 rounded_pair(float value) { return rounded_pair(value, value); }

__device__ __forceinline__ float widened(u16 bits) {
#if FP16
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
  return value;
#else
  return __uint_as_float((u32)bits << 16);
#endif
}

// A row-major operand of wgmma, rows of 128 bytes that TMA has permuted (PTX ISA, "Matrix Descriptor Format": addresses in
// units of 16 bytes, 1024 from 8 rows to the next, swizzling of 128 bytes).
__device__ __forceinline__ u64 rows_of_128_bytes(u32 at) { return (u64)(at >> 4) | 1ull << 16 | 64ull << 32 | 1ull << 62; }

// The same rows, so many bytes further on.
__device__ __forceinline__ u64 further(u64 rows, u32 bytes) { return rows + bytes / 16; }

// Barriers of some of a block's warps: THREADS in all, of which those that `arrive` do not wait.
enum { WORKING = 1, STARTED };

template <int ID, int THREADS>
__device__ __forceinline__ void meet() {
  asm volatile("bar.sync %0, %1;" ::"n"(ID), "n"(THREADS) : "memory");
}

template <int ID, int THREADS>
__device__ __forceinline__ void arrive() {
  asm volatile("bar.arrive %0, %1;" ::"n"(ID), "n"(THREADS) : "memory");
}

template <int EACH>
__device__ __forceinline__ void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(EACH));
}

template <int EACH>
__device__ __forceinline__ void give_up_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(EACH));
}
