// Products on the matrix units of sm90 of 16-bit operands: A in registers, B in shared memory.

#define FOUR_OF(n) "+f"(d[n][0]), "+f"(d[n][1]), "+f"(d[n][2]), "+f"(d[n][3])
#define SIXTEEN_OF(n) FOUR_OF(n), FOUR_OF(n + 1), FOUR_OF(n + 2), FOUR_OF(n + 3)
#define SIXTY_FOUR_OF(n) SIXTEEN_OF(n), SIXTEEN_OF(n + 4), SIXTEEN_OF(n + 8), SIXTEEN_OF(n + 12)

#define LIST_64 \
  "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15," \
  "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31," \
  "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47," \
  "%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"
#define LIST_128 \
  "%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79," \
  "%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,%90,%91,%92,%93,%94,%95," \
  "%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108,%109,%110,%111," \
  "%112,%113,%114,%115,%116,%117,%118,%119,%120,%121,%122,%123,%124,%125,%126,%127"

// Begins to add A B, of 64 rows of A and 8 N of B, 64 columns of both, to D, or sets D. Lane 4 g + t of warp w has, of each 16
// columns, A's rows 16 w + g and 8 more: columns 2 t, 2 t + 1 of both, then those 8 further. D[n] has the same two rows, and
// columns, rows of B, 8 n + 2 t and the next. B has rows of 128 bytes that TMA has permuted.
template <int N>
__device__ __forceinline__ void multiply_stage(float (&d)[N][4], const u32 (&a)[4][4], u32 at_b, bool adds) {
  static_assert(N == 16 || N == 32, "instructions for 128 and 256 rows of B");
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    const u64 b = rows_of_128_bytes(at_b + 32 * k);
    const u32 sum = adds || k > 0;
    if constexpr (N == 32)
      asm volatile(
          "{\n.reg .pred p;\nsetp.ne.u32 p, %133, 0;\nwgmma.mma_async.sync.aligned.m64n256k16.f32." ELEMENT "." ELEMENT " {"
          LIST_64 "," LIST_128 "}, {%128,%129,%130,%131}, %132, p, 1, 1, 0;\n}"
          : SIXTY_FOUR_OF(0), SIXTY_FOUR_OF(16)
          : "r"(a[k][0]), "r"(a[k][1]), "r"(a[k][2]), "r"(a[k][3]), "l"(b), "r"(sum)
          : "memory");
    else
      asm volatile(
          "{\n.reg .pred p;\nsetp.ne.u32 p, %69, 0;\nwgmma.mma_async.sync.aligned.m64n128k16.f32." ELEMENT "." ELEMENT " {"
          LIST_64 "}, {%64,%65,%66,%67}, %68, p, 1, 1, 0;\n}"
          : SIXTY_FOUR_OF(0)
          : "r"(a[k][0]), "r"(a[k][1]), "r"(a[k][2]), "r"(a[k][3]), "l"(b), "r"(sum)
          : "memory");
  }
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

// Waits for all products but the last LATER. The compiler must not touch what they use before.
template <int LATER>
__device__ __forceinline__ void multiplied(u32 (&a)[4][4]) {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(LATER) : "memory");
#pragma unroll
  for (int i = 0; i < 16; ++i) asm volatile("" : "+r"(a[i / 4][i % 4])::"memory");
}

template <int LATER, int N>
__device__ __forceinline__ void multiplied(float (&d)[N][4]) {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(LATER) : "memory");
#pragma unroll
  for (int i = 0; i < 4 * N; ++i) asm volatile("" : "+f"(d[i / 4][i % 4])::"memory");
}
