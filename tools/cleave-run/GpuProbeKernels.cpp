// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The probe's PTX. By hand, because a GPU's machine has no compiler of ours, and need not have NVIDIA's.

#include "tools/cleave-run/GpuProbeKernels.h"

namespace cleave {

const char *const gpuProbePtx = R"(.version 7.0
.target sm_80
.address_size 64

.visible .entry probe_nothing()
{
  ret;
}

.visible .entry probe_scale(.param .u64 source, .param .u64 target, .param .u32 n)
{
  .reg .pred %p<2>;
  .reg .b32 %r<8>;
  .reg .f32 %f<5>;
  .reg .b64 %d<6>;
  ld.param.u64 %d1, [source];
  ld.param.u64 %d2, [target];
  ld.param.u32 %r1, [n];
  cvta.to.global.u64 %d1, %d1;
  cvta.to.global.u64 %d2, %d2;
  mov.u32 %r2, %ctaid.x;
  mov.u32 %r3, %ntid.x;
  mov.u32 %r4, %tid.x;
  mov.u32 %r5, %nctaid.x;
  mad.lo.s32 %r6, %r2, %r3, %r4;
  mul.lo.s32 %r7, %r3, %r5;
next:
  setp.ge.u32 %p1, %r6, %r1;
  @%p1 bra done;
  mul.wide.u32 %d3, %r6, 16;
  add.s64 %d4, %d1, %d3;
  add.s64 %d5, %d2, %d3;
  ld.global.v4.f32 {%f1, %f2, %f3, %f4}, [%d4];
  add.f32 %f1, %f1, %f1;
  add.f32 %f2, %f2, %f2;
  add.f32 %f3, %f3, %f3;
  add.f32 %f4, %f4, %f4;
  st.global.v4.f32 [%d5], {%f1, %f2, %f3, %f4};
  add.u32 %r6, %r6, %r7;
  bra next;
done:
  ret;
}

.visible .entry probe_sum(.param .u64 source, .param .u64 target, .param .u32 n)
{
  .reg .pred %p<3>;
  .reg .b32 %r<12>;
  .reg .f32 %f<7>;
  .reg .b64 %d<6>;
  .shared .align 4 .b8 parts[32];
  ld.param.u64 %d1, [source];
  ld.param.u64 %d2, [target];
  ld.param.u32 %r1, [n];
  cvta.to.global.u64 %d1, %d1;
  cvta.to.global.u64 %d2, %d2;
  mov.u32 %r2, %ctaid.x;
  mov.u32 %r3, %tid.x;
  mul.wide.u32 %d3, %r2, %r1;
  shl.b64 %d3, %d3, 4;
  add.s64 %d1, %d1, %d3;
  mov.u32 %r4, %r3;
  mov.f32 %f5, 0f00000000;
next:
  setp.ge.u32 %p1, %r4, %r1;
  @%p1 bra add;
  mul.wide.u32 %d4, %r4, 16;
  add.s64 %d5, %d1, %d4;
  ld.global.v4.f32 {%f1, %f2, %f3, %f4}, [%d5];
  add.f32 %f1, %f1, %f2;
  add.f32 %f3, %f3, %f4;
  add.f32 %f1, %f1, %f3;
  add.f32 %f5, %f5, %f1;
  add.u32 %r4, %r4, 256;
  bra next;
add:
  mov.b32 %r5, %f5;
  shfl.sync.down.b32 %r6, %r5, 16, 31, -1;
  mov.b32 %f6, %r6;
  add.f32 %f5, %f5, %f6;
  mov.b32 %r5, %f5;
  shfl.sync.down.b32 %r6, %r5, 8, 31, -1;
  mov.b32 %f6, %r6;
  add.f32 %f5, %f5, %f6;
  mov.b32 %r5, %f5;
  shfl.sync.down.b32 %r6, %r5, 4, 31, -1;
  mov.b32 %f6, %r6;
  add.f32 %f5, %f5, %f6;
  mov.b32 %r5, %f5;
  shfl.sync.down.b32 %r6, %r5, 2, 31, -1;
  mov.b32 %f6, %r6;
  add.f32 %f5, %f5, %f6;
  mov.b32 %r5, %f5;
  shfl.sync.down.b32 %r6, %r5, 1, 31, -1;
  mov.b32 %f6, %r6;
  add.f32 %f5, %f5, %f6;
  and.b32 %r7, %r3, 31;
  setp.ne.u32 %p1, %r7, 0;
  shr.u32 %r8, %r3, 5;
  shl.b32 %r8, %r8, 2;
  mov.u32 %r9, parts;
  add.u32 %r10, %r9, %r8;
  @%p1 bra wait;
  st.shared.f32 [%r10], %f5;
wait:
  bar.sync 0;
  setp.ne.u32 %p2, %r3, 0;
  @%p2 bra done;
  mov.f32 %f5, 0f00000000;
  mov.u32 %r11, 0;
join:
  ld.shared.f32 %f6, [%r9];
  add.f32 %f5, %f5, %f6;
  add.u32 %r9, %r9, 4;
  add.u32 %r11, %r11, 1;
  setp.lt.u32 %p1, %r11, 8;
  @%p1 bra join;
  mul.wide.u32 %d3, %r2, 4;
  add.s64 %d4, %d2, %d3;
  st.global.f32 [%d4], %f5;
done:
  ret;
}
)";

} // namespace cleave
