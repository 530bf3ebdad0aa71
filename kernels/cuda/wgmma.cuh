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

#define LIST_1 "%0,%1,%2,%3"
#define LIST_2 LIST_1 ",%4,%5,%6,%7"
#define LIST_3 LIST_2 ",%8,%9,%10,%11"
#define LIST_4 LIST_3 ",%12,%13,%14,%15"
#define LIST_5 LIST_4 ",%16,%17,%18,%19"
#define LIST_6 LIST_5 ",%20,%21,%22,%23"
#define LIST_7 LIST_6 ",%24,%25,%26,%27"
#define LIST_8 LIST_7 ",%28,%29,%30,%31"
#define FOUR(n) "=f"(d[n][0]), "=f"(d[n][1]), "=f"(d[n][2]), "=f"(d[n][3])
#define FOURS_1 FOUR(0)
#define FOURS_2 FOURS_1, FOUR(1)
#define FOURS_3 FOURS_2, FOUR(2)
#define FOURS_4 FOURS_3, FOUR(3)
#define FOURS_5 FOURS_4, FOUR(4)
#define FOURS_6 FOURS_5, FOUR(5)
#define FOURS_7 FOURS_6, FOUR(6)
#define FOURS_8 FOURS_7, FOUR(7)
#define ADDED(n) "+f"(d[n][0]), "+f"(d[n][1]), "+f"(d[n][2]), "+f"(d[n][3])
#define JOINED_NAMES(a, b) a##b
#define JOINED(a, b) JOINED_NAMES(a, b)
#define WGMMA_OF(shape, names, a, b, ...)                                                                             \
  asm volatile("{\n.reg .pred p;\nsetp.ne.u32 p, 0, 0;\nwgmma.fence.sync.aligned;\nwgmma.mma_async.sync.aligned." shape \
               ".f32." A_TYPE "." B_TYPE " {" names "}, " a ", " b ", p, 1, 1;\nwgmma.commit_group.sync.aligned;\n}" \
               : __VA_ARGS__                                                                                          \
               : "l"(a_rows), "l"(b_rows)                                                                              \
               : "memory")
#define WGMMA(...) WGMMA_OF(__VA_ARGS__)
#define SIZE_1 "m64n8k32", LIST_1, "%4", "%5", FOURS_1
#define SIZE_2 "m64n16k32", LIST_2, "%8", "%9", FOURS_2
#define SIZE_3 "m64n24k32", LIST_3, "%12", "%13", FOURS_3
#define SIZE_4 "m64n32k32", LIST_4, "%16", "%17", FOURS_4
#define SIZE_5 "m64n40k32", LIST_5, "%20", "%21", FOURS_5
#define SIZE_6 "m64n48k32", LIST_6, "%24", "%25", FOURS_6
#define SIZE_7 "m64n56k32", LIST_7, "%28", "%29", FOURS_7
#define SIZE_8 "m64n64k32", LIST_8, "%32", "%33", FOURS_8

// Of 64 rows of A by TILES * 8 rows of B, 32 columns: begins D, which `multiplied` waits for. In lane 4 g + t of warp
// w, D[n] has row 16 w + g, twice, then 8 more, and columns 8 n + 2 t and 8 n + 2 t + 1 of each.
__device__ __forceinline__ void multiply_block(float (&d)[TILES][4], u64 a_rows, u64 b_rows) { WGMMA(JOINED(SIZE_, TILES)); }

#if TILES == 8
// Of 128 columns, which are a stage.
__device__ __forceinline__ void multiply_stage(float (&d)[8][4], u32 at_a, u32 at_b) {
  const u64 a = rows_of_128_bytes(at_a), b = rows_of_128_bytes(at_b);
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
  for (int k = 0; k < 4; ++k)
    asm volatile("{\n.reg .pred p;\nsetp.ne.u32 p, %34, 0;\nwgmma.mma_async.sync.aligned.m64n64k32.f32." A_TYPE "." B_TYPE
                 " {" LIST_8 "}, %32, %33, p, 1, 1;\n}"
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
