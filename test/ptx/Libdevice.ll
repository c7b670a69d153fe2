; SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
;
; Functions of libdevice as LLVM compiles them: thread i computes all functions of in[i] into row i of 8 of out.

target datalayout = "e-i64:64-i128:128-v16:16-v32:32-n16:32:64"
target triple = "nvptx64-nvidia-cuda"

declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
declare float @__nv_expf(float)
declare float @__nv_logf(float)
declare float @__nv_tanhf(float)
declare float @__nv_erff(float)
declare float @__nv_sinf(float)
declare float @__nv_cosf(float)
declare float @__nv_powf(float, float)
declare float @__nv_sqrtf(float)
declare double @__nv_exp(double)
declare double @__nv_log(double)
declare double @__nv_tanh(double)
declare double @__nv_erf(double)
declare double @__nv_sin(double)
declare double @__nv_cos(double)
declare double @__nv_pow(double, double)
declare double @__nv_sqrt(double)

define ptx_kernel void @singles(ptr addrspace(1) %in, ptr addrspace(1) %out) {
  %thread = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %place = getelementptr float, ptr addrspace(1) %in, i32 %thread
  %x = load float, ptr addrspace(1) %place
  %to0 = getelementptr [8 x float], ptr addrspace(1) %out, i32 %thread
  %y0 = call float @__nv_expf(float %x)
  store float %y0, ptr addrspace(1) %to0
  %to1 = getelementptr float, ptr addrspace(1) %to0, i32 1
  %y1 = call float @__nv_logf(float %x)
  store float %y1, ptr addrspace(1) %to1
  %to2 = getelementptr float, ptr addrspace(1) %to0, i32 2
  %y2 = call float @__nv_tanhf(float %x)
  store float %y2, ptr addrspace(1) %to2
  %to3 = getelementptr float, ptr addrspace(1) %to0, i32 3
  %y3 = call float @__nv_erff(float %x)
  store float %y3, ptr addrspace(1) %to3
  %to4 = getelementptr float, ptr addrspace(1) %to0, i32 4
  %y4 = call float @__nv_sinf(float %x)
  store float %y4, ptr addrspace(1) %to4
  %to5 = getelementptr float, ptr addrspace(1) %to0, i32 5
  %y5 = call float @__nv_cosf(float %x)
  store float %y5, ptr addrspace(1) %to5
  %to6 = getelementptr float, ptr addrspace(1) %to0, i32 6
  %y6 = call float @__nv_powf(float %x, float 0x3FF4CCCCC0000000)
  store float %y6, ptr addrspace(1) %to6
  %to7 = getelementptr float, ptr addrspace(1) %to0, i32 7
  %y7 = call float @__nv_sqrtf(float %x)
  store float %y7, ptr addrspace(1) %to7
  ret void
}

define ptx_kernel void @doubles(ptr addrspace(1) %in, ptr addrspace(1) %out) {
  %thread = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %place = getelementptr double, ptr addrspace(1) %in, i32 %thread
  %x = load double, ptr addrspace(1) %place
  %to0 = getelementptr [8 x double], ptr addrspace(1) %out, i32 %thread
  %y0 = call double @__nv_exp(double %x)
  store double %y0, ptr addrspace(1) %to0
  %to1 = getelementptr double, ptr addrspace(1) %to0, i32 1
  %y1 = call double @__nv_log(double %x)
  store double %y1, ptr addrspace(1) %to1
  %to2 = getelementptr double, ptr addrspace(1) %to0, i32 2
  %y2 = call double @__nv_tanh(double %x)
  store double %y2, ptr addrspace(1) %to2
  %to3 = getelementptr double, ptr addrspace(1) %to0, i32 3
  %y3 = call double @__nv_erf(double %x)
  store double %y3, ptr addrspace(1) %to3
  %to4 = getelementptr double, ptr addrspace(1) %to0, i32 4
  %y4 = call double @__nv_sin(double %x)
  store double %y4, ptr addrspace(1) %to4
  %to5 = getelementptr double, ptr addrspace(1) %to0, i32 5
  %y5 = call double @__nv_cos(double %x)
  store double %y5, ptr addrspace(1) %to5
  %to6 = getelementptr double, ptr addrspace(1) %to0, i32 6
  %y6 = call double @__nv_pow(double %x, double 1.3)
  store double %y6, ptr addrspace(1) %to6
  %to7 = getelementptr double, ptr addrspace(1) %to0, i32 7
  %y7 = call double @__nv_sqrt(double %x)
  store double %y7, ptr addrspace(1) %to7
  ret void
}
