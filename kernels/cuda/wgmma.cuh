// Products on the FP8 matrix units of sm90, of operands in shared memory.

// Operands are e4m3; A is e5m2 with A_E5M2, B with B_E5M2.
#if A_E5M2
#define A_TYPE "e5m2"
#else
#define A_TYPE "e4m3"
#endif
#if B_E5M2
#define B_TYPE "e5m2"
#else
#define B_TYPE "e4m3"
#endif

// Of 64 rows of A by TILES * 8 rows of B, 32 columns: begins D, which `multiplied` waits for. In lane 4 g + t of warp
// w, D[n] has row 16 w + g, twice, then 8 more, and columns 8 n + 2 t and 8 n + 2 t + 1 of each.
#define FOUR(n) "=f"(d[n][0]), "=f"(d[n][1]), "=f"(d[n][2]), "=f"(d[n][3])
#define ADDED(n) "+f"(d[n][0]), "+f"(d[n][1]), "+f"(d[n][2]), "+f"(d[n][3])
#define LIST_32 \
  "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31"
#define WGMMA(shape, names, a, b, ...)                                                                                \
  asm volatile("{\n.reg .pred p;\nsetp.ne.u32 p, 0, 0;\nwgmma.fence.sync.aligned;\nwgmma.mma_async.sync.aligned." shape \
               ".f32." A_TYPE "." B_TYPE " {" names "}, " a ", " b ", p, 1, 1;\nwgmma.commit_group.sync.aligned;\n}" \
               : __VA_ARGS__                                                                                          \
               : "l"(rows_of_128_bytes(at_a)), "l"(rows_of_128_bytes(at_b))                                           \
               : "memory")

__device__ __forceinline__ void multiply_block(float (&d)[TILES][4], u32 at_a, u32 at_b) {
#if TILES == 1
  WGMMA("m64n8k32", "%0,%1,%2,%3", "%4", "%5", FOUR(0));
#elif TILES == 2
  WGMMA("m64n16k32", "%0,%1,%2,%3,%4,%5,%6,%7", "%8", "%9", FOUR(0), FOUR(1));
#elif TILES == 4
  WGMMA("m64n32k32", "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15", "%16", "%17", FOUR(0), FOUR(1), FOUR(2),
        FOUR(3));
#else
  WGMMA("m64n64k32",
        LIST_32, "%32", "%33", FOUR(0), FOUR(1), FOUR(2), FOUR(3), FOUR(4), FOUR(5), FOUR(6), FOUR(7));
#endif
}

#if TILES == 8
// Of 128 columns, which are a stage.
__device__ __forceinline__ void multiply_stage(float (&d)[8][4], u32 at_a, u32 at_b) {
  const u64 a = rows_of_128_bytes(at_a), b = rows_of_128_bytes(at_b);
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
  for (int k = 0; k < 4; ++k)
    asm volatile("{\n.reg .pred p;\nsetp.ne.u32 p, %34, 0;\nwgmma.mma_async.sync.aligned.m64n64k32.f32." A_TYPE "." B_TYPE
                 " {" LIST_32 "}, %32, %33, p, 1, 1;\n}"
                 : ADDED(0), ADDED(1), ADDED(2), ADDED(3), ADDED(4), ADDED(5), ADDED(6), ADDED(7)
                 : "l"(a + 2 * k), "l"(b + 2 * k), "r"(u32(k > 0))
                 : "memory");
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
#endif

// Waits for all products but the last LATER. The compiler must not use D before.
template <int LATER>
__device__ __forceinline__ void multiplied(float (&d)[TILES][4]) {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(LATER) : "memory");
#pragma unroll
  for (int i = 0; i < TILES * 4; ++i) asm volatile("" : "+f"(d[i / 4][i % 4])::"memory");
}
